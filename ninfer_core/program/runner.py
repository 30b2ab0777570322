"""Runs units of work on one device: the Program that the engine drives.

Between units the device holds, for every open row: its pages and state slot, its sampler, the candidates of its last
unit. A decode round is told N of each row and begins by folding exactly that much, so committed state never holds a
token that was not taken. Each round takes one copy to the device and one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import ForwardBatch, Model, RecurrentState
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.engine.messages import Sampling
from ninfer_core.engine.program import RowRound, RowSetup
from ninfer_core.ops import paged_attention
from ninfer_core.ops.sample import count_tokens, sample
from ninfer_core.program.cache import PagedCache
from ninfer_core.program.pages import PagePool
from ninfer_core.program.pools import Pools
from ninfer_core.program.slots import SlotPool
from ninfer_core.program.workspace import Workspace


@dataclass(slots=True)
class _Row:
    """The host's copy of what it needs to know. `length` counts committed tokens in the cache; `in_flight` is whether
    a decode round has left columns that are still to be folded; `offered` is how many candidates the last unit gave."""

    setup: RowSetup
    pages: tuple[int, ...]
    length: int = 0
    in_flight: bool = False
    offered: int = 0


class DeviceProgram:
    """Implements `ninfer_core.engine.program.Program` over a family's model. A row is named by its state slot."""

    def __init__(
        self,
        plan: ExecutionPlan,
        model: Model,
        codec: KVCodec,
        pools: Pools,
        workspace: Workspace,
        device: torch.device,
    ) -> None:
        assert plan.capacities.draft_tokens == 0, "rounds of more than one column need a drafter"
        self._model = model
        self._codec = codec
        self._pools = pools
        self._workspace = workspace
        self._device = device
        self._columns = 1 + plan.capacities.draft_tokens
        self._token_domain = plan.geometry.token_domain
        self._prefill_chunk = plan.capacities.prefill_chunk
        self.pages = PagePool(pages=plan.capacities.kv_pages, page_tokens=plan.capacities.page_tokens)
        self.slots = SlotPool(plan.capacities.state_slots)
        self._rows: dict[int, _Row] = {}
        slots = plan.capacities.state_slots
        self._slot_index = torch.arange(slots, device=device)
        self._column_index = torch.arange(self._columns, device=device)
        self._staging = torch.zeros(3 * slots, dtype=torch.int64, pin_memory=device.type == "cuda")

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    @torch.inference_mode()
    def open_row(self, setup: RowSetup) -> int | None:
        """A row whose reservation is taken and whose recurrent state is that of an empty sequence."""
        slot = self.slots.take()
        if slot is None:
            return None
        pages = self.pages.reserve(setup.reserved_tokens)
        if pages is None:
            self.slots.give_back(slot)
            return None
        self._rows[slot] = _Row(setup, pages)
        self._initialise(slot, pages, setup.sampling)
        return slot

    @torch.inference_mode()
    def prefill(self, row: int, token_ids: Sequence[int], last: bool) -> int | None:
        """Commit the next chunk; with `last`, draw the first candidate from its final column."""
        state, rows = self._rows[row], self._pools.rows
        start, columns = state.length, len(token_ids)
        assert 1 <= columns <= self._prefill_chunk and start + columns <= state.setup.prompt_tokens
        state.length += columns
        slots = self._slot_index[row : row + 1]
        positions = torch.arange(start, state.length, device=self._device).view(1, columns)
        cache = PagedCache(
            paged_attention.prefill,
            self._codec,
            self._pools.planes,
            rows.block_tables[row : row + 1],
            positions[:, 0],
            state.length,
        )
        batch = ForwardBatch(
            token_ids=torch.tensor([tuple(token_ids)], dtype=torch.int64, device=self._device),
            positions=positions.expand(3, 1, columns),
            cache=cache,
            state=self._recurrent(slots, torch.zeros_like(slots)),
        )
        hidden = self._model.prefill(batch)
        if not last:
            return None
        assert state.length == state.setup.prompt_tokens, "the last chunk ends before the prompt does"
        length = positions[:, -1] + 1
        candidates = self._sample(hidden[:, -1], slots, length)
        rows.lengths.index_copy_(0, slots, length)
        state.offered = 1
        self._workspace.check()
        return int(candidates.item())

    @torch.inference_mode()
    def decode(self, rows: Sequence[RowRound]) -> list[tuple[int, ...]]:
        """Fold N of every row, then run one column of each in one batch of exactly these rows."""
        inputs: tuple[list[int], list[int], list[int]] = ([], [], [])
        context_tokens = 0
        for each in rows:
            state = self._rows[each.row]
            assert 1 <= each.accepted <= state.offered, f"N = {each.accepted} of {state.offered} candidates"
            folded = each.accepted if state.in_flight else 0
            for values, value in zip(inputs, (each.row, each.accepted, folded), strict=True):
                values.append(value)
            state.length += folded
            state.in_flight = True
            state.offered = self._columns
            context_tokens = max(context_tokens, state.length + self._columns)
        self._upload(inputs)
        candidates: list[list[int]] = self._round(len(rows), context_tokens).tolist()
        return [tuple(row) for row in candidates]

    @torch.inference_mode()
    def close_row(self, row: int) -> None:
        """Pages and slot are free at once: work that still reads them was launched before whatever comes next."""
        self.pages.release(self._rows.pop(row).pages)
        self.slots.give_back(row)

    def close(self) -> None:
        """Wait for the device; its memory goes with this object."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _initialise(self, slot: int, pages: tuple[int, ...], sampling: Sampling) -> None:
        rows = self._pools.rows
        for array in self._pools.state.values():
            array[:, slot].zero_()
        rows.penalty_counts[slot].zero_()
        rows.lengths[slot].zero_()
        rows.block_tables[slot, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
        rows.sampler[slot] = torch.tensor(
            (
                sampling.temperature,
                sampling.top_p,
                sampling.min_p,
                sampling.presence_penalty,
                sampling.frequency_penalty,
            )
        )
        rows.top_k[slot] = sampling.top_k
        rows.seeds[slot] = _signed(sampling.seed)

    def _upload(self, inputs: tuple[list[int], ...]) -> None:
        """The one copy to the device. The staging buffer is free again: the last round's result has been waited for."""
        flat = torch.tensor(inputs, dtype=torch.int64).view(-1)
        staged = self._staging[: flat.numel()]
        staged.copy_(flat)
        self._pools.rows.round_inputs[: flat.numel()].copy_(staged, non_blocking=True)

    def _round(self, count: int, context_tokens: int) -> torch.Tensor:
        """The device's part of a round of `count` rows: -> candidates [rows, columns]. Reads nothing back."""
        rows = self._pools.rows
        slots, accepted, folded = rows.round_inputs[: 3 * count].view(3, count).unbind(0)
        previous = rows.candidates.index_select(0, slots)
        anchors = previous.gather(1, (accepted - 1).unsqueeze(1))
        temperature = rows.sampler.index_select(0, slots)[:, 0]
        count_tokens(rows.penalty_counts, slots, previous, accepted, temperature)
        lengths = rows.lengths.index_select(0, slots) + folded
        rows.lengths.index_copy_(0, slots, lengths)
        block_table = rows.block_tables.index_select(0, slots)
        cache = PagedCache(
            paged_attention.decode, self._codec, self._pools.planes, block_table, lengths, context_tokens
        )
        positions = lengths.unsqueeze(1) + self._column_index
        batch = ForwardBatch(
            token_ids=anchors,
            positions=positions.expand(3, count, self._columns),
            cache=cache,
            state=self._recurrent(slots, folded),
        )
        hidden = self._model.decode(batch)
        return self._sample(hidden[:, -1], slots, lengths + self._columns)

    def _sample(self, hidden: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """hidden [rows, hidden_size] -> the next candidates [rows, 1], kept in the rows' buffers as well."""
        rows = self._pools.rows
        logits = self._model.logits(hidden)
        parameters = rows.sampler_rows(slots)
        tokens = sample(logits, parameters, rows.penalty_counts, slots, positions, self._token_domain)
        candidates = tokens.unsqueeze(1)
        rows.candidates.index_copy_(0, slots, candidates)
        return candidates

    def _recurrent(self, slots: torch.Tensor, accepted: torch.Tensor) -> RecurrentState:
        return RecurrentState(self._pools.state, self._pools.records, slots, accepted)


def _signed(seed: int) -> int:
    """The int64 with the bits of a 64-bit unsigned seed."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed
