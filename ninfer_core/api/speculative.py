"""What a speculative backend supplies. Verification, acceptance and rollback of the target belong to the core, so a
drafter can be slow, but never wrong (docs/speculation.md, "What a drafter owes").

A device drafter runs inside the round, on the device, and is captured with it. A host drafter is asked between rounds.
Nothing of a drafter has to be saved or rolled back by itself: what it keeps for a sequence is in the arrays and the
pages that it declares, which travel with the sequence, and a host drafter can be told a sequence again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.geometry import StateArray
from ninfer_core.api.model import AttentionCache

if TYPE_CHECKING:
    import torch

FINAL_HIDDEN = -1
"""The tap behind the final norm, whose output the head reads. Every other tap is a layer, counted from 0: the residual
stream behind it, before the next norm."""

MOST_DRAFT_TOKENS = 15
"""With the anchor, 16 columns of a row in one round."""


class DraftTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a backend may draft in a round, 1..`most`, and how many it does unless told."""

    most: int
    default: int


class DrafterNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Declared before anything is built, so that the plan can pay for it.

    `groups` are groups of the artifact's tensors that have to be there and are loaded, by the family or the drafter.
    `resident` is what the drafter itself keeps on the device, besides what the family keeps of those groups.
    `taps` say what of the target the drafter reads, in that order. `kv_layers` are layers of its own in the paged
    cache, of the target's attention geometry; `state` arrays are kept for every sequence, zeros for a new one.
    `law_width` is the support of the laws that drafts are drawn from, 0 where every draft is certain.
    `workspace_bytes` bounds its temporaries, those of a round and of a chunk of a prompt.
    """

    runs_on: Literal["device", "host"] = "device"
    groups: tuple[str, ...] = ()
    resident: tuple[TensorSpec, ...] = ()
    taps: tuple[int, ...] = ()
    kv_layers: int = 0
    state: tuple[StateArray, ...] = ()
    law_width: int = 0
    workspace_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DraftColumns:
    """Columns of the target that the drafter has not been shown yet, of sequences that it may have to draft for.

    slots      [rows] int64: which of `state` is whose
    positions  [rows, columns] int64, consecutive
    token_ids  [rows, columns] int64: the token BEHIND each column, that at its position + 1
    features   [rows, columns, taps, hidden_size] activation dtype: what the taps saw at each column
    counts     [rows] int64, 1..columns: how many columns are committed. What comes behind them has no meaning, in any
               of these tensors
    anchors    [rows] int64: the token behind the last committed column
    lengths    [rows] int64: the position of that token
    state      name -> [layers, slots, *shape]: the declared arrays, read and written by the drafter
    cache      given the number of tokens [rows] before a batch's first column, the drafter's own layers of the paged
               cache, counted from 0, for batches of up to `columns` columns. Columns behind the committed ones may be
               written: they are written again before they are read

    Of one sequence, columns come in order and each exactly once as a committed one.
    """

    slots: torch.Tensor
    positions: torch.Tensor
    token_ids: torch.Tensor
    features: torch.Tensor
    counts: torch.Tensor
    anchors: torch.Tensor
    lengths: torch.Tensor
    state: Mapping[str, torch.Tensor]
    cache: Callable[[torch.Tensor], AttentionCache]


@dataclass(frozen=True, slots=True)
class DraftSampling:
    """What drafts may be drawn by: temperature float32 [rows], 0 for greedy rows; seeds int64 [rows], for
    `ops.sample.uniform` with `Purpose.DRAFT` and the position of the drafted token."""

    temperature: torch.Tensor
    seeds: torch.Tensor


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposals for the tokens behind the anchor.

    token_ids      [rows, drafts] int64. A draft that is no token of the model, and all behind it, are passed over
    counts         [rows] int64: how many of a row's are meant, 0 being legal; None for all
    law_ids        [rows, drafts, law_width] int64, all of a position different, and
    probabilities  [rows, drafts, law_width] float32: the law that each draft was really drawn from, given those before
                   it (docs/speculation.md, "Acceptance"). None for drafts that are certain; not looked at in greedy
                   rows, whose drafts have to be certain
    """

    token_ids: torch.Tensor
    counts: torch.Tensor | None = None
    law_ids: torch.Tensor | None = None
    probabilities: torch.Tensor | None = None


class Drafter(Protocol):
    """A drafter on the device. Its calls launch work and wait for nothing, so that rounds can be captured."""

    def ingest(self, columns: DraftColumns) -> None:
        """Committed columns of one row: a chunk of its prompt, or of tokens that were put into its answer, with what
        was taken before these. The last column of a chunk comes with the next call, when the token behind it is known.
        """
        ...

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        """Take in the committed columns and draft for every row."""
        ...


class HostDrafter(Protocol):
    """A drafter on the host, between rounds. `row` names a sequence from `open` to `close`."""

    def open(self, row: int) -> None: ...

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        """These tokens stand behind those of before: the prompt in chunks, then what was taken of every round, and
        what was put into the answer."""
        ...

    def propose(self, row: int, most: int) -> Sequence[int]:
        """Up to `most` tokens that may come next; none is legal."""
        ...

    def close(self, row: int) -> None: ...
