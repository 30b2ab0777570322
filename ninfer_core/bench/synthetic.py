"""Rounds at an acceptance of one's choice: weights that are no model's agree with no drafter."""

from __future__ import annotations

import dataclasses

import torch

from ninfer_core.ops.accept import Accepted, Acceptor, Drafts
from ninfer_core.ops.sample import ChosenRows, Purpose, uniform

DRAWS, MOST_DRAFTS = 4096, 64
SLOT_STRIDE = 509
"""Draws between two slots: rows of a bench stand at the same positions."""


class SyntheticAcceptor:
    """Implements Acceptor over another one, whose work is done all the same. Each draft is kept with a probability,
    whatever it is, as long as those before it are.

    What is kept is drawn beforehand and looked up by slot and position: drawing within a round is half a hundred
    launches, which no round of a model has. The draws are on the device, so that captured rounds follow `keep`.
    """

    def __init__(self, acceptor: Acceptor, device: torch.device) -> None:
        self._acceptor = acceptor
        self._kept = torch.zeros(DRAWS, dtype=torch.int64, device=device)
        self.keep(None)

    def keep(self, probability: float | None) -> None:
        """Of each draft from here on; None: as the other acceptor says."""
        if probability is None:
            self._kept.fill_(-1)
            return
        draw = torch.arange(DRAWS).unsqueeze(1).expand(DRAWS, MOST_DRAFTS)
        places = torch.arange(MOST_DRAFTS).expand(DRAWS, MOST_DRAFTS)
        kept = uniform(draw, places, Purpose.ACCEPT) < probability
        self._kept.copy_(kept.long().cumprod(1).sum(1))

    def accept(
        self,
        logits: torch.Tensor,
        drafts: Drafts,
        rows: ChosenRows,
        candidates: torch.Tensor,
        offered: torch.Tensor,
    ) -> Accepted:
        """See `Acceptor`."""
        chosen = self._acceptor.accept(logits, drafts, rows, candidates, offered)
        place = torch.add(rows.positions[:, 0], rows.slots, alpha=SLOT_STRIDE) % DRAWS
        drawn = self._kept.index_select(0, place)
        found = torch.where(drawn < 0, chosen.offered, torch.minimum(drawn, drafts.counts) + 1)
        offered.index_copy_(0, rows.slots, found)
        return dataclasses.replace(chosen, packed=torch.cat((found.unsqueeze(1), chosen.packed[:, 1:]), dim=1))
