"""Drafts of a round, and what a drafter on the device is shown for them.

Of every slot the features of its last columns are kept: those of a round, of which the next one says how many are
committed, or, in the first place, that of the last column of a prompt. What a drafter has not been shown of a sequence
is thus always there, and is shown as soon as the token behind it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from ninfer_core.api.errors import PluginBroken
from ninfer_core.api.model import AttentionCache
from ninfer_core.api.speculative import Draft, DraftColumns, Drafter, DraftSampling
from ninfer_core.ops.accept import Drafts
from ninfer_core.ops.held_drafts import HoldDrafts
from ninfer_core.ops.paged_attention import AttentionRoute, AttentionRoutes
from ninfer_core.ops.round_start import RoundInputs
from ninfer_core.plugins.loading import failures_of
from ninfer_core.program.cache import PagedCache
from ninfer_core.program.pools import Pools


class Shown(Protocol):
    """What becomes of what the columns of units leave for a drafter."""

    def features(self, rows: int, columns: int) -> torch.Tensor | None:
        """Room for what columns leave, [rows, columns, taps, hidden_size]; None where nobody taps."""
        ...

    def keep(self, slots: torch.Tensor, features: torch.Tensor | None) -> None:
        """The features of a round's columns, [rows, columns, taps, hidden_size]."""
        ...

    def ingest(self, row: int, start: int, token_ids: torch.Tensor, features: torch.Tensor | None) -> None:
        """Tokens [columns] of `row` from position `start` on were committed, and left `features` [1, 1 + columns, taps,
        hidden_size], behind a place for the column before them."""
        ...

    def settle(self, row: int, accepted: int, length: int) -> None:
        """Of the row's last round `accepted` columns were folded, and a prompt's columns follow at `length`."""
        ...


class Proposed(NamedTuple):
    """What a round checks, and its `columns` int64 [rows, 1 + drafts]: the anchor of every row, and the drafts."""

    drafts: Drafts
    columns: torch.Tensor


class Drafting(Shown, Protocol):
    """Where the drafts of a round come from. What is called for a round launches work and waits for nothing."""

    def propose(self, begun: RoundInputs, context_tokens: int) -> Proposed:
        """For every row of a round that has begun, none of which reaches beyond `context_tokens`."""
        ...


class NothingShown:
    """Implements Shown where nobody looks at the model's columns."""

    def features(self, rows: int, columns: int) -> torch.Tensor | None:
        return None

    def keep(self, slots: torch.Tensor, features: torch.Tensor | None) -> None:
        return

    def ingest(self, row: int, start: int, token_ids: torch.Tensor, features: torch.Tensor | None) -> None:
        return

    def settle(self, row: int, accepted: int, length: int) -> None:
        return


class HostProposals(NothingShown):
    """Drafts that came with the inputs of the round: Drafting for a drafter on the host, which looks at tokens alone.

    told  int64 [1 + drafts, padded rows]: how many drafts a row has, and those
    """

    def __init__(self, told: torch.Tensor) -> None:
        self._told = told

    def propose(self, begun: RoundInputs, context_tokens: int) -> Proposed:
        told = self._told[:, : begun.slots.shape[0]]
        drafts = told[1:].T
        return Proposed(Drafts(drafts.contiguous(), told[0]), torch.cat((begun.anchors, drafts), dim=1))


@dataclass(frozen=True, slots=True)
class DraftBounds:
    """What drafts are held to: how many a row has, the tokens there are, the support of their laws."""

    draft_tokens: int
    token_domain: int
    law_width: int


class DeviceDrafting:
    """Asks a drafter on the device; `label` is what messages call it. Its layers of the cache begin at
    `first_layer`. `kept` [slots, columns, taps, hidden_size] are the features of the last columns of every slot."""

    def __init__(
        self,
        drafter: Drafter,
        label: str,
        bounds: DraftBounds,
        pools: Pools,
        kept: torch.Tensor,
        routes: AttentionRoutes,
        first_layer: int,
        hold: HoldDrafts,
    ) -> None:
        self._drafter = drafter
        self._label = label
        self._bounds = bounds
        self._pools = pools
        self._kept = kept
        self._routes = routes
        self._first_layer = first_layer
        self._hold = hold

    def propose(self, begun: RoundInputs, context_tokens: int) -> Proposed:
        bounds = self._bounds
        columns = DraftColumns(
            slots=begun.slots,
            positions=begun.pending_positions,
            token_ids=begun.pending_ids,
            features=self._kept.index_select(0, begun.slots),
            counts=begun.pending.clamp(min=1),  # where kernels are only compiled, nothing has written it
            anchors=begun.anchors[:, 0],
            lengths=begun.lengths,
            state=self._pools.drafter_state,
            cache=self._cache(self._routes.decode, begun.block_table, context_tokens),
        )
        with self._failures("propose"):
            draft = self._drafter.propose(columns, DraftSampling(begun.temperature, begun.seeds))
        if (wrong := wrong_draft(draft, begun.slots.shape[0], bounds)) is not None:
            raise PluginBroken(f"{self._label} gave back something wrong from its drafter's propose: {wrong}")
        held = self._hold(draft.token_ids, draft.counts, draft.law_ids, begun.anchors, bounds.token_domain)
        return Proposed(Drafts(held.token_ids, held.counts, draft.law_ids, draft.probabilities), held.columns)

    def features(self, rows: int, columns: int) -> torch.Tensor | None:
        _, _, taps, width = self._kept.shape
        return self._kept.new_empty(rows, columns, taps, width) if taps else None

    def keep(self, slots: torch.Tensor, features: torch.Tensor | None) -> None:
        if features is not None:
            self._kept.index_copy_(0, slots, features)

    def ingest(self, row: int, start: int, token_ids: torch.Tensor, features: torch.Tensor | None) -> None:
        """The column before the first one is shown with them, and the last one waits for the token behind it."""
        columns = token_ids.shape[0]
        if features is None:
            features = self._kept.new_empty(1, 1 + columns, *self._kept.shape[2:])
        features[:, 0].copy_(self._kept[row, :1])
        # Parts are copied where they may lie anywhere: kernels are compiled for memory that is aligned.
        if start:
            self._show(row, start - 1, token_ids, features[:, :-1])
        else:
            self._show(row, 0, token_ids[1:].clone(), features[:, 1:-1])
        self._kept[row, :1].copy_(features[:, -1])

    def settle(self, row: int, accepted: int, length: int) -> None:
        shown = accepted - 1
        token_ids = self._pools.rows.candidates[row, :shown].clone()
        self._show(row, length - accepted, token_ids, self._kept[row : row + 1, :shown])
        if shown:
            self._kept[row, :1].copy_(self._kept[row, shown:accepted].clone())

    def _show(self, row: int, start: int, token_ids: torch.Tensor, features: torch.Tensor) -> None:
        """Committed columns from position `start` on, with the tokens behind them."""
        columns, device = token_ids.shape[0], token_ids.device
        if not columns:
            return
        end = start + columns
        one = (1,)
        shown = DraftColumns(
            slots=torch.full(one, row, device=device),
            positions=torch.arange(start, end, device=device).unsqueeze(0),
            token_ids=token_ids.unsqueeze(0),
            features=features,
            counts=torch.full(one, columns, device=device),
            anchors=token_ids[-1:].clone(),
            lengths=torch.full(one, end, device=device),
            state=self._pools.drafter_state,
            cache=self._cache(self._routes.prefill, self._pools.rows.block_tables[row : row + 1], end),
        )
        with self._failures("ingest"):
            self._drafter.ingest(shown)

    def _cache(
        self, route: AttentionRoute, block_table: torch.Tensor, context_tokens: int
    ) -> Callable[[torch.Tensor], AttentionCache]:
        planes, first_layer = self._pools.planes, self._first_layer
        return lambda lengths: PagedCache(route, planes, block_table, lengths, context_tokens, first_layer)

    def _failures(self, method: str) -> AbstractContextManager[None]:
        return failures_of(self._label, f"its drafter's {method}")


def wrong_draft(draft: object, rows: int, bounds: DraftBounds) -> str | None:
    """What of a drafter's answer is not what `Draft` says, looking at shapes and dtypes; None when nothing is."""
    if not isinstance(draft, Draft):
        return f"{type(draft).__name__}, where a Draft belongs"
    law = (rows, bounds.draft_tokens, bounds.law_width)
    wanted = {
        "token_ids": (law[:2], torch.int64),
        "counts": (law[:1], torch.int64),
        "law_ids": (law, torch.int64),
        "probabilities": (law, torch.float32),
    }
    for name, (shape, dtype) in wanted.items():
        tensor = getattr(draft, name)
        if tensor is None and name != "token_ids":
            continue
        if not isinstance(tensor, torch.Tensor):
            return f"{name} are {type(tensor).__name__}, where a tensor belongs"
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            return f"{name} are {tensor.dtype} {list(tensor.shape)}, where {dtype} {list(shape)} belongs"
    if (draft.law_ids is None) != (draft.probabilities is None):
        return "law_ids or probabilities without the other"
    return None
