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
    features  [rows, columns, taps, hidden_size] activation dtype, written by the model: the residual stream behind the
              layer of each of `BuildShape.taps`, or what it returns for `FINAL_HIDDEN`. None where nobody taps
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    cache: AttentionCache
    state: RecurrentState
    features: torch.Tensor | None = None


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


class NextTokenHead(Protocol):
    """A checkpoint's own multi-token prediction head (group `mtp`; docs/model.md, "Next-token head")."""

    def __call__(
        self, token_ids: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor, cache: AttentionCache
    ) -> torch.Tensor:
        """From the hidden state of a column and the token behind it to a hidden state that predicts the one after.

        token_ids [rows, columns] int64; hidden [rows, columns, hidden_size], after the final norm or from this head;
        positions [3, rows, columns] of the hidden states. Keys and values go to layer 0 of `cache`, at its columns.
        -> [rows, columns, hidden_size], which `DraftableModel.draft_logits` takes.
        """
        ...


@runtime_checkable
class DraftableModel(Model, Protocol):
    """A model that drafters can use parts of. A family whose models are not cannot be used with a device drafter."""

    @property
    def next_token_head(self) -> NextTokenHead | None:
        """None unless `BuildShape.groups` has `mtp`."""
        ...

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids int64 of any shape -> [*shape, hidden_size]."""
        ...

    def draft_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [rows, columns, hidden_size] -> [rows, columns, proposed], float32 or the activation dtype: those of
        the whole head, or of its rows that `draft_token_ids` names. A row's numbers do not depend on the others."""
        ...

    @property
    def draft_token_ids(self) -> torch.Tensor | None:
        """int64 [proposed]: the tokens that `draft_logits` are of, when `BuildShape.groups` has `draft_head`; else
        None, for every one in order."""
        ...


@runtime_checkable
class ObservableModel(Model, Protocol):
    """A model that can be looked into, as `ninfer compare` does. A family need not offer it."""

    def prefill_observed(self, batch: ForwardBatch, on_layer: Callable[[int, torch.Tensor], None]) -> torch.Tensor:
        """`prefill`, with the same numbers, telling the residual stream [rows, columns, hidden_size] after every
        layer, counted from 0. The tensor is the model's own: it is read at once or copied."""
        ...
