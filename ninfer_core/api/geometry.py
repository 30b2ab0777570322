"""Shapes that the plan is computed from: pure numbers, no weights, no torch."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ninfer_core.api.artifact import DTYPE_BYTES

Kernels = Literal["auto", "reference"]
"""What computes: the fastest kernels for the device, or the plain torch operations that they are tested against. On a
CPU both are the latter."""


class AttentionGeometry(msgspec.Struct, frozen=True, kw_only=True):
    """The layers that own a KV cache. `layers` counts them alone, not the recurrent ones."""

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int


class StateArray(msgspec.Struct, frozen=True, kw_only=True):
    """One array a sequence carries in every recurrent layer (or, as a record, for every input column).

    `kept` is for records: how many columns before the first new one must stay readable after they are folded.
    """

    name: str
    layers: int
    shape: tuple[int, ...]
    dtype: str
    kept: int = 0

    @property
    def bytes(self) -> int:
        """Bytes in all layers: of one sequence, or of one column of a record."""
        return self.layers * math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    def ring_columns(self, columns: int) -> int:
        """Columns of the ring of a record, for rounds of `columns`: those kept, those of the last round, which are
        still to be folded, and those of the round at hand. So a round writes over nothing that it reads."""
        return self.kept + 2 * columns


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the engine sees it.

    `state` is what a sequence carries from token to token. `records` is what one input column of a round must leave
    behind so that exactly N columns can be folded into `state` later (docs/speculation.md, "The recurrent state"), and
    what of older columns the next ones look at. They are kept in rings addressed by position: the column at position p
    is at index p mod `ring_columns`. `vocabulary_rows` are the rows of the embedding and of the logits; how many of
    them are tokens is the frontend's `token_domain`.
    """

    hidden_size: int
    layers: int
    vocabulary_rows: int
    max_positions: int
    attention: AttentionGeometry
    state: tuple[StateArray, ...]
    records: tuple[StateArray, ...]

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's state, without the columns that its rings keep."""
        return sum(array.bytes for array in self.state)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the columns that a sequence's rings keep: with `state_bytes`, all that a sequence carries."""
        return sum(array.kept * array.bytes for array in self.records)

    @property
    def record_bytes(self) -> int:
        """Bytes one input column of a round leaves."""
        return sum(array.bytes for array in self.records)

    def ring_bytes(self, columns: int) -> int:
        """Bytes of one sequence's rings for rounds of `columns`."""
        return sum(array.ring_columns(columns) * array.bytes for array in self.records)


class BuildShape(msgspec.Struct, frozen=True, kw_only=True):
    """The largest units of work that the program will ask a model for: all that a plugin is told of a plan.

    A prefill has one row of up to `prefill_tokens` columns; a decode round up to `decode_rows` rows of exactly
    `decode_columns` columns (1, and the draft tokens). `max_context` is in tokens. `kernels` is what `select` of every
    operation is asked for, `reference` on a device that has none. `groups` are the groups of tensors that are loaded,
    `text` always among them; `taps` what a drafter reads of the model (`ninfer_core.api.speculative`).
    """

    prefill_tokens: int
    decode_rows: int
    decode_columns: int
    max_context: int
    activation_dtype: str
    kernels: Kernels = "auto"
    groups: tuple[str, ...] = ("text",)
    taps: tuple[int, ...] = ()
