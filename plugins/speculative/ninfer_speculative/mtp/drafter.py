"""Rounds of the multi-token prediction head."""

from __future__ import annotations

import torch

from ninfer_core.api import (
    BuildShape,
    Draft,
    DraftableModel,
    DraftColumns,
    Drafter,
    DraftSampling,
    Model,
    NextTokenHead,
)
from ninfer_core.ops import likeliest
from ninfer_core.ops.likeliest import Likeliest


def build_drafter(model: Model, shape: BuildShape, device: torch.device) -> Drafter:
    """As many drafts for every row as a round of `shape` has room for. The model must have been built with group
    `mtp`."""
    assert isinstance(model, DraftableModel), f"{type(model).__name__} offers drafters nothing"
    head = model.next_token_head
    assert head is not None, "the model was built without its next-token head"
    return MtpDrafter(model, head, shape.decode_columns - 1, likeliest.select(device, shape.kernels))


class MtpDrafter:
    """Implements Drafter.

    The head's entry in the cache at position p is made of the target's hidden state at p and the token at p + 1. For
    drafts after the first, its own output stands for the hidden state; those entries are written over by the next
    round, which knows what the target made of these positions.
    """

    def __init__(self, model: DraftableModel, head: NextTokenHead, drafts: int, search: Likeliest) -> None:
        self._model, self._head, self._drafts, self._search = model, head, drafts, search

    def ingest(self, columns: DraftColumns) -> None:
        """See `ninfer_core.api.Drafter`."""
        self._seen(columns)

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        """See `ninfer_core.api.Drafter`; rows draft alike at every temperature."""
        seen = self._seen(columns)  # [rows, columns, hidden]
        last = (columns.counts - 1).view(-1, 1, 1).expand(-1, 1, seen.shape[-1])
        hidden = seen.gather(1, last)
        drafts = [self._likeliest(hidden)]
        for step in range(self._drafts - 1):
            position = columns.lengths + step
            hidden = self._head(drafts[-1], hidden, position.view(1, -1, 1).expand(3, -1, 1), columns.cache(position))
            drafts.append(self._likeliest(hidden))
        return Draft(torch.cat(drafts, dim=1))

    def _seen(self, columns: DraftColumns) -> torch.Tensor:
        """The head over columns of the target, junk ones included -> [rows, columns, hidden_size]."""
        positions = columns.positions
        return self._head(
            columns.token_ids,
            columns.features[:, :, 0],
            positions.unsqueeze(0).expand(3, -1, -1),
            columns.cache(positions[:, 0]),
        )

    def _likeliest(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [rows, 1, hidden_size] -> token ids [rows, 1]."""
        return self._search(self._model.draft_logits(hidden), self._model.draft_token_ids)
