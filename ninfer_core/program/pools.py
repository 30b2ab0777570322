"""Every tensor that outlives a unit of work, allocated once from the plan. Nothing else in the program allocates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.speculative import DrafterNeeds
from ninfer_core.ops.sample import SamplerTable
from ninfer_core.plan.memory import (
    feature_tensors,
    kv_planes,
    record_tensors,
    row_tensors,
    spare_pages,
    state_tensors,
)


@dataclass(frozen=True, slots=True)
class RowBuffers:
    """What the device keeps for each state slot between rounds."""

    block_tables: torch.Tensor  # int32 [slots, pages of one context]
    penalty_counts: torch.Tensor  # int32 [slots, vocabulary_rows]
    lengths: torch.Tensor  # int64 [slots]: committed tokens in the KV cache
    candidates: torch.Tensor  # int64 [slots, columns]: what the last unit offered
    offered: torch.Tensor  # int64 [slots]: how many of these count
    seeds: torch.Tensor  # int64 [slots]
    top_k: torch.Tensor  # int64 [slots]
    sampler: torch.Tensor  # float32 [slots, 5]: temperature, top_p, min_p, presence and frequency penalty

    @property
    def sampler_table(self) -> SamplerTable:
        """The sampler settings of all slots."""
        return SamplerTable(self.sampler, self.top_k, self.seeds)


@dataclass(frozen=True, slots=True)
class Pools:
    """KV planes [layers, pages, kv_heads, page_tokens, elements] in the layout's order, the layers of a drafter behind
    the model's; state arrays [layers, slots, *shape]; records [layers, slots, ring columns, *shape]; of a drafter the
    state arrays [layers, slots, *shape] and features [slots, columns, taps, hidden_size]."""

    planes: tuple[torch.Tensor, ...]
    state: dict[str, torch.Tensor]
    records: dict[str, torch.Tensor]
    rows: RowBuffers
    drafter_state: dict[str, torch.Tensor]
    features: torch.Tensor | None


def allocate_pools(plan: ExecutionPlan, device: torch.device) -> Pools:
    """All pools of the plan on `device`, their bytes exactly those of the ledger."""
    capacities, geometry = plan.capacities, plan.geometry
    columns = 1 + capacities.draft_tokens
    needs = DrafterNeeds() if plan.drafter is None else plan.drafter.needs
    pages = capacities.kv_pages + spare_pages(capacities)
    planes = kv_planes(geometry, plan.kv_layout, pages, needs.kv_layers)
    state = state_tensors(geometry.state, capacities.state_slots)
    records = record_tensors(geometry, capacities.state_slots, columns)
    rows = row_tensors(geometry, capacities)
    drafter_state = state_tensors(needs.state, capacities.state_slots)
    features = feature_tensors(geometry, capacities, len(needs.taps), plan.activation_dtype)
    for line, specs in (
        ("kv_pages", planes),
        ("recurrent_state", state),
        ("round_records", records),
        ("row_buffers", rows),
        *((("drafter_state", drafter_state), ("round_features", features)) if plan.drafter is not None else ()),
    ):
        _check_ledger(plan, line, specs)
    return Pools(
        # Attention masks what was never written, so pages need no first value.
        planes=tuple(torch.empty(spec.shape, dtype=_dtype(spec), device=device) for spec in planes),
        state=_zeros(state, device),
        records=_zeros(records, device),
        rows=RowBuffers(**_zeros(rows, device)),
        drafter_state=_zeros(drafter_state, device),
        features=None if plan.drafter is None else _zeros(features, device)["features"],
    )


def _check_ledger(plan: ExecutionPlan, name: str, specs: Sequence[TensorSpec]) -> None:
    planned, allocated = plan.ledger.line(name).bytes, sum(spec.bytes for spec in specs)
    assert planned == allocated, f"the plan has {planned} bytes for {name} and the program allocates {allocated}"


def _zeros(specs: Sequence[TensorSpec], device: torch.device) -> dict[str, torch.Tensor]:
    return {spec.name: torch.zeros(spec.shape, dtype=_dtype(spec), device=device) for spec in specs}


def _dtype(spec: TensorSpec) -> torch.dtype:
    dtype = getattr(torch, spec.dtype)
    assert isinstance(dtype, torch.dtype), f"{spec.name} has dtype {spec.dtype}, which torch does not know"
    return dtype
