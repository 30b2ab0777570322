"""What a family builds and the program runs. Tensors appear in annotations only: no torch at import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Zero-centred norms over the elements of every query and key head: weights [head_dim] (`ops.rms_norm`)."""

    query: torch.Tensor
    key: torch.Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosine and sine of every column, each float32 [rows, columns, pairs] (`ops.partial_rope`)."""

    cos: torch.Tensor
    sin: torch.Tensor


class AttentionCache(Protocol):
    """The paged KV cache as one unit of work sees it."""

    def attend_projected(
        self, layer: int, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, scale: float
    ) -> torch.Tensor:
        """Gated attention from the projection of its input: norms and rotation of queries and keys; keys and values of
        the batch's columns are stored; causal attention over each row's whole context; the result times the sigmoid
        of the gate (`ops.paged_attention`).

        `layer` counts attention layers from 0. projected [rows, columns, (2 query_heads + 2 kv_heads) head_dim]: of
        each query head the query, then its gate; then the keys of all KV heads; then their values.
        Returns [rows, columns, query_heads * head_dim] in the dtype of `projected`.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The recurrent state of all sequences, and which of it belongs to the rows of this batch.

    arrays[name]  [layers, slots, *shape]        committed state; a slot belongs to one sequence
    records[name] [layers, slots, ring, *shape]  rings of what columns left: position p at index p mod ring, where
                                                 ring = `StateArray.ring_columns` of the rounds' columns
    slots         [rows] int64
    lengths       [rows] int64                   columns committed, those accepted now included: the position of the
                                                 first new column
    accepted      [rows] int64                   columns of the last round still to be folded into `arrays`: those
                                                 at positions [lengths - accepted, lengths)

    A new sequence has arrays of zeros and length 0; what its rings hold then has no meaning: columns at positions
    below zero count as zeros.
    """

    arrays: Mapping[str, torch.Tensor]
    records: Mapping[str, torch.Tensor]
    slots: torch.Tensor
    lengths: torch.Tensor
    accepted: torch.Tensor


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """One unit of work.

    token_ids [rows, columns] int64
    positions [3, rows, columns] int64: the time, height and width axes of mrope; equal for text
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    cache: AttentionCache
    state: RecurrentState


class Model(Protocol):
    """A family's model on one device."""

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        """Run all columns of one row and commit them to `state.arrays`, leaving in `state.records` the last ones
        that are kept; nothing is accepted. -> hidden after the final norm [rows, columns, hidden_size]."""
        ...

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        """Fold `state.accepted` columns of the last round into `state.arrays`, then run the new columns
        without committing them, leaving `state.records`; -> hidden [rows, columns, hidden_size]."""
        ...

    def fold(self, state: RecurrentState) -> None:
        """The first act of `decode` alone: for a row that ends or is checkpointed."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [n, hidden_size] -> [n, vocabulary_rows], float32 or the activation dtype."""
        ...


@runtime_checkable
class ObservableModel(Model, Protocol):
    """A model that can be looked into, as `ninfer compare` does. A family need not offer it."""

    def prefill_observed(self, batch: ForwardBatch, on_layer: Callable[[int, torch.Tensor], None]) -> torch.Tensor:
        """`prefill`, with the same numbers, telling the residual stream [rows, columns, hidden_size] after every
        layer, counted from 0. The tensor is the model's own: it is read at once or copied."""
        ...
