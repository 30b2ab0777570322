"""A model with pools of its own, driven token by token: what conformance tests and experiments need of a program.

Sequences live in slots. Every slot has its own pages, so that nothing has to be reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api import (
    ForwardBatch,
    Geometry,
    HeadNorms,
    KVLayout,
    KVPart,
    KVPlane,
    Model,
    RecurrentState,
    Rotation,
    StateArray,
)
from ninfer_core.ops import paged_attention
from ninfer_core.ops.paged_attention import AttentionRoutes, AttentionShape, PagedRows

PAGE_TOKENS = 64


class ExactCodec:
    """Keys and values as they come: keeps the error of a format out of a test of a model."""

    def __init__(self, head_dim: int, dtype: str) -> None:
        planes = [KVPlane(part=part, name=part, dtype=dtype, elements=head_dim) for part in ("key", "value")]
        self.layout = KVLayout(planes=tuple(planes))

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (values,)

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        return planes[0].to(dtype)


@dataclass(frozen=True, slots=True)
class HarnessCache:
    """The paged cache of one unit of work. `planes[layer]` are that layer's pools."""

    planes: Sequence[tuple[torch.Tensor, ...]]
    block_table: torch.Tensor  # [rows, blocks] int32
    lengths: torch.Tensor  # [rows] int32
    context_tokens: int
    prefill: bool
    attention: AttentionRoutes

    def attend_projected(
        self, layer: int, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, scale: float
    ) -> torch.Tensor:
        """See `ninfer_core.api.AttentionCache`."""
        rows = PagedRows(self.planes[layer], self.block_table, self.lengths, self.context_tokens)
        route = self.attention.prefill if self.prefill else self.attention.decode
        return route.attend_projected(projected, norms, rotation, rows, scale)


class ModelHarness:
    """`columns` is the W of decode rounds. Memory that no sequence owns is poisoned: reading it shows."""

    def __init__(
        self,
        model: Model,
        geometry: Geometry,
        *,
        device: torch.device,
        activation_dtype: str = "float32",
        slots: int = 8,
        columns: int = 1,
        max_context: int = 256,
    ) -> None:
        self.model = model
        self.geometry = geometry
        self.columns = columns
        self._device = device
        self._codec = ExactCodec(geometry.attention.head_dim, activation_dtype)
        self._blocks = -(-max_context // PAGE_TOKENS)
        attention = geometry.attention
        shape = AttentionShape(
            query_heads=attention.query_heads,
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            page_tokens=PAGE_TOKENS,
            decode_columns=columns,
            max_context=max_context,
            activation_dtype=getattr(torch, activation_dtype),
        )
        self._attention = paged_attention.select(device, "reference", self._codec, shape)
        self.arrays = {array.name: self._pool(array, slots) for array in geometry.state}
        self.records = {array.name: self._pool(array, slots, array.ring_columns(columns)) for array in geometry.records}
        self._planes = [self._layer_planes(slots) for _ in range(geometry.attention.layers)]
        self._lengths = [0] * slots

    def begin(self, slot: int) -> None:
        """A new sequence in a slot, whatever was there before; its rings hold poison."""
        for pool in self.arrays.values():
            pool[:, slot] = 0
        for pool in self.records.values():
            pool[:, slot] = torch.nan
        self._lengths[slot] = 0

    def prefill(self, slot: int, token_ids: Sequence[int]) -> torch.Tensor:
        """Run and commit tokens; -> hidden [tokens, hidden_size]."""
        batch = self.batch([slot], [token_ids], [0], prefill=True)
        with torch.inference_mode():
            hidden = self.model.prefill(batch)
        self._lengths[slot] += len(token_ids)
        return hidden[0]

    def decode(self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], accepted: Sequence[int]) -> torch.Tensor:
        """Fold `accepted` columns of each slot's last round and run a new one; -> hidden [rows, columns, hidden]."""
        self._accept(slots, accepted)
        with torch.inference_mode():
            return self.model.decode(self.batch(slots, token_ids, accepted, prefill=False))

    def advance(self, slot: int, tokens: int) -> None:
        """So many columns of a batch that a test has run itself stay."""
        self._lengths[slot] += tokens

    def fold(self, slots: Sequence[int], accepted: Sequence[int]) -> None:
        """Fold alone."""
        self._accept(slots, accepted)
        with torch.inference_mode():
            self.model.fold(self._state(slots, accepted))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [..., hidden_size] -> float32 [..., vocabulary], eight rows at a time at most."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        with torch.inference_mode():
            return torch.cat([self.model.logits(part) for part in torch.split(rows, 8)]).view(*hidden.shape[:-1], -1)

    def committed(self, slot: int) -> dict[str, torch.Tensor]:
        """A copy of what the slot's sequence carries: its arrays, and of its rings the kept columns, oldest first."""
        carried = {name: pool[:, slot].clone() for name, pool in self.arrays.items()}
        for array in self.geometry.records:
            if array.kept:
                carried[array.name] = self._kept(array, slot)
        return carried

    def _kept(self, array: StateArray, slot: int) -> torch.Tensor:
        """[layers, kept, *shape], zeros before the beginning."""
        positions = torch.arange(self._lengths[slot] - array.kept, self._lengths[slot], device=self._device)
        ring = self.records[array.name][:, slot]
        before = (positions < 0).view(1, -1, *(1 for _ in array.shape))
        return ring.index_select(1, positions % ring.shape[1]).masked_fill(before, 0)

    def batch(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], accepted: Sequence[int], *, prefill: bool
    ) -> ForwardBatch:
        """One unit of work on the slots as they stand, for a test that runs the model itself."""
        ids = torch.tensor([list(row) for row in token_ids], dtype=torch.int64, device=self._device)
        lengths = torch.tensor([self._lengths[slot] for slot in slots], device=self._device)
        positions = lengths.unsqueeze(1) + torch.arange(ids.shape[1], device=self._device)
        first = torch.tensor(slots, device=self._device).unsqueeze(1) * self._blocks
        cache = HarnessCache(
            planes=self._planes,
            block_table=(first + torch.arange(self._blocks, device=self._device)).int(),
            lengths=lengths.int(),
            context_tokens=max(self._lengths[slot] for slot in slots) + ids.shape[1],
            prefill=prefill,
            attention=self._attention,
        )
        return ForwardBatch(ids, positions.expand(3, -1, -1), cache, self._state(slots, accepted))

    def _accept(self, slots: Sequence[int], accepted: Sequence[int]) -> None:
        for slot, count in zip(slots, accepted, strict=True):
            self._lengths[slot] += count

    def _state(self, slots: Sequence[int], accepted: Sequence[int]) -> RecurrentState:
        return RecurrentState(
            arrays=self.arrays,
            records=self.records,
            slots=torch.tensor(slots, dtype=torch.int64, device=self._device),
            lengths=torch.tensor([self._lengths[slot] for slot in slots], dtype=torch.int64, device=self._device),
            accepted=torch.tensor(accepted, dtype=torch.int64, device=self._device),
        )

    def _pool(self, array: StateArray, *owners: int) -> torch.Tensor:
        shape = (array.layers, *owners, *array.shape)
        return torch.full(shape, torch.nan, dtype=getattr(torch, array.dtype), device=self._device)

    def _layer_planes(self, slots: int) -> tuple[torch.Tensor, ...]:
        attention = self.geometry.attention
        return tuple(
            torch.full(
                (slots * self._blocks, attention.kv_heads, PAGE_TOKENS, plane.elements),
                torch.nan,
                dtype=getattr(torch, plane.dtype),
                device=self._device,
            )
            for plane in self._codec.layout.planes
        )
