"""The byte ledger: what every capacity costs, and how many KV pages a device can pay for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.geometry import BuildShape, Geometry, Kernels
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.plan import Capacities, DeviceInfo, Ledger, LedgerLine, PlannedDrafter
from ninfer_core.plan.memory import (
    PAGE_TOKENS,
    attention_bytes,
    device_context_bytes,
    feature_tensors,
    graph_bytes,
    kv_planes,
    page_bytes,
    pages_for,
    record_tensors,
    row_tensors,
    sampling_bytes,
    spare_pages,
    state_tensors,
    tapped_bytes,
)
from ninfer_core.plan.units import GIB, format_bytes

AUTO_HEADROOM_BYTES = GIB
"""What `--kv-capacity auto` leaves of the device (contract OPT-6)."""
TEXT_ALONE = ("text",)
"""The groups of tensors that a model without a drafter loads."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """Everything that bytes depend on, besides the capacities themselves.

    `resident` gives the family's weights on the device for groups of tensors, `workspace` its bytes of temporaries
    for the largest units of work. `cuda_graphs` is whether rounds are captured. `drafter` gives what a drafter needs
    for units of work, where there is one.
    """

    device: DeviceInfo
    geometry: Geometry
    layout: KVLayout
    activation_dtype: str
    resident: Callable[[tuple[str, ...]], Sequence[TensorSpec]]
    workspace: Callable[[BuildShape], int]
    kernels: Kernels = "auto"
    cuda_graphs: bool = False
    drafter: Callable[[BuildShape], PlannedDrafter] | None = None

    def lines(self, capacities: Capacities) -> tuple[LedgerLine, ...]:
        """Every line of the ledger but the headroom."""
        context_bytes = device_context_bytes(self.device)
        context_formula = "CUDA context and library workspaces" if context_bytes else "none on the CPU"
        drafter = self.planned_drafter(capacities)
        resident = self.resident(TEXT_ALONE if drafter is None else drafter.groups)
        return (
            LedgerLine(name="device_context", bytes=context_bytes, formula=context_formula),
            _line("weights", resident, f"{len(resident)} tensors on the device"),
            *self._pools(capacities, 0 if drafter is None else drafter.needs.kv_layers),
            *(() if drafter is None else self._drafter_lines(capacities, drafter)),
            LedgerLine(
                name="workspace",
                bytes=self._workspace_bytes(capacities),
                formula=f"temporaries of {capacities.prefill_chunk} prefill tokens, of {capacities.max_concurrency} "
                f"rows * {1 + capacities.draft_tokens} columns, or of choosing their tokens",
            ),
            self._graphs(capacities),
        )

    def _drafter_lines(self, capacities: Capacities, drafter: PlannedDrafter) -> tuple[LedgerLine, ...]:
        needs, slots, columns = drafter.needs, capacities.state_slots, 1 + capacities.draft_tokens
        state_bytes = sum(array.bytes for array in needs.state)
        features = feature_tensors(self.geometry, capacities, len(needs.taps), self.activation_dtype)
        hidden = f"{self.geometry.hidden_size} elements of {self.activation_dtype}"
        return (
            _line("drafter_weights", needs.resident, f"{len(needs.resident)} tensors on the device"),
            _line("drafter_state", state_tensors(needs.state, slots), f"{slots} slots * {state_bytes} B"),
            _line("round_features", features, f"{slots} slots * {columns} columns * {len(needs.taps)} taps * {hidden}"),
        )

    def _graphs(self, capacities: Capacities) -> LedgerLine:
        """Captured rounds keep their temporaries, which all graphs share, to themselves."""
        if not self.cuda_graphs:
            return LedgerLine(name="graph_allowance", bytes=0, formula="no CUDA graphs")
        shape = self._shape(capacities)
        return LedgerLine(
            name="graph_allowance",
            bytes=graph_bytes(self.geometry, shape) + self._drafting_bytes(shape, prefill_tokens=1),
            formula=f"{capacities.max_concurrency} captured rounds, and the temporaries of one",
        )

    def _drafting_bytes(self, shape: BuildShape, prefill_tokens: int) -> int:
        """Temporaries of a drafter and what it is shown, for the rounds of `shape` and chunks of `prefill_tokens`."""
        if self.drafter is None:
            return 0
        shape = msgspec.structs.replace(shape, prefill_tokens=prefill_tokens)
        needs = self.drafter(shape).needs
        return needs.workspace_bytes + tapped_bytes(self.geometry, shape)

    def planned_drafter(self, capacities: Capacities) -> PlannedDrafter | None:
        """What the drafter needs for these capacities."""
        if self.drafter is None:
            return None
        return self.drafter(build_shape(capacities, self.activation_dtype, self._routes))

    def _shape(self, capacities: Capacities) -> BuildShape:
        return build_shape(capacities, self.activation_dtype, self._routes, self.planned_drafter(capacities))

    @property
    def _routes(self) -> Kernels:
        return kernels_on(self.device, self.kernels)

    def _pools(self, capacities: Capacities, drafter_layers: int) -> tuple[LedgerLine, ...]:
        """What `program.pools` allocates, but for a drafter's own."""
        geometry, attention = self.geometry, self.geometry.attention
        slots, columns = capacities.state_slots, 1 + capacities.draft_tokens
        pages, layers = capacities.kv_pages + spare_pages(capacities), attention.layers + drafter_layers
        spare = f" ({spare_pages(capacities)} spare)" if spare_pages(capacities) else ""
        return (
            _line(
                "kv_pages",
                kv_planes(geometry, self.layout, pages, drafter_layers),
                f"{pages} pages{spare} * {PAGE_TOKENS} tokens * {layers} layers * "
                f"{attention.kv_heads} heads * {self.layout.bytes} B",
            ),
            _line("recurrent_state", state_tensors(geometry.state, slots), f"{slots} slots * {geometry.state_bytes} B"),
            _line(
                "round_records",
                record_tensors(geometry, slots, columns),
                f"{slots} slots * (2 * {columns} columns * {geometry.record_bytes} B + {geometry.kept_bytes} B kept)",
            ),
            _line(
                "row_buffers",
                row_tensors(geometry, capacities),
                f"{capacities.max_concurrency} rows * ({pages_for(capacities.max_context + capacities.draft_tokens)} "
                "table entries + "
                f"{geometry.vocabulary_rows} counters + inputs)",
            ),
        )

    def _workspace_bytes(self, capacities: Capacities) -> int:
        """The model's temporaries or the sampler's: they are never alive together. A drafter's are counted beside
        either, with what it is shown."""
        shape = self._shape(capacities)
        kernels = self._routes == "auto"
        attention = attention_bytes(self.geometry, self.layout, shape) if kernels else 0
        largest = max(self.workspace(shape) + attention, sampling_bytes(self.geometry, shape, kernels))
        return largest + self._drafting_bytes(shape, shape.prefill_tokens)

    def bytes(self, capacities: Capacities) -> int:
        """What the capacities cost in all, headroom not counted."""
        return sum(line.bytes for line in self.lines(capacities))

    def ledger(self, capacities: Capacities) -> Ledger:
        """All lines; the headroom is what the device has left. The capacities must fit."""
        lines = self.lines(capacities)
        left = self.device.memory_bytes - sum(line.bytes for line in lines)
        assert left >= 0, f"capacities over the device by {-left} bytes were let through"
        headroom = LedgerLine(name="headroom", bytes=left, formula="device memory - everything above")
        return Ledger(lines=(*lines, headroom), device_bytes=self.device.memory_bytes)

    def with_auto_pages(self, capacities: Capacities) -> Capacities:
        """The most KV pages that leave the headroom: M = min(C L, Mmin + floor((device - headroom - Bmin) / Bstep)),
        Mmin = max(L, C) being the pages of `capacities` (docs/engine.md, "Pages"). Mmin itself may not fit."""
        spare = self.device.memory_bytes - AUTO_HEADROOM_BYTES - self.bytes(capacities)
        drafter = self.planned_drafter(capacities)
        step = page_bytes(self.geometry, self.layout, 0 if drafter is None else drafter.needs.kv_layers)
        most = capacities.max_concurrency * pages_for(capacities.max_context)
        pages = min(most, capacities.kv_pages + spare // step) if step else most
        return msgspec.structs.replace(capacities, kv_pages=max(capacities.kv_pages, pages))


def kernels_on(device: DeviceInfo, kernels: Kernels) -> Kernels:
    """What computes on `device`: plain operations wherever there are no kernels."""
    return kernels if device.kind == "cuda" else "reference"


def build_shape(
    capacities: Capacities, activation_dtype: str, kernels: Kernels, drafter: PlannedDrafter | None = None
) -> BuildShape:
    """What plugins are told of a plan's capacities and of what its drafter was found to need."""
    return BuildShape(
        groups=TEXT_ALONE if drafter is None else drafter.groups,
        taps=() if drafter is None else drafter.needs.taps,
        prefill_tokens=capacities.prefill_chunk,
        decode_rows=capacities.max_concurrency,
        decode_columns=1 + capacities.draft_tokens,
        max_context=capacities.max_context,
        activation_dtype=activation_dtype,
        kernels=kernels,
    )


def _line(name: str, tensors: Sequence[TensorSpec], formula: str) -> LedgerLine:
    return LedgerLine(name=name, bytes=sum(tensor.bytes for tensor in tensors), formula=formula)


def ledger_text(lines: Sequence[LedgerLine]) -> str:
    """`weights 53.68 GiB, kv_pages 512.0 MiB, ...`, lines of nothing left out."""
    return ", ".join(f"{line.name} {format_bytes(line.bytes)}" for line in lines if line.bytes)


def largest_that(fits: Callable[[int], bool], low: int, high: int, step: int = 1) -> int | None:
    """The largest of low, low + step, ... <= high that fits, when whatever is smaller than a fit fits too."""
    if high < low or not fits(low):
        return None
    good, bad = 0, (high - low) // step + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(low + middle * step) else (good, middle)
    return low + good * step
