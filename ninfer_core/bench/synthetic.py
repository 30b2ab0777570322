"""Rounds at an acceptance of one's choice: weights that are no model's agree with no drafter."""

from __future__ import annotations

import dataclasses

import torch

from ninfer_core.ops.accept import Accepted, Acceptor, Drafts
from ninfer_core.ops.sample import ChosenRows, Purpose, uniform

NOT_SYNTHETIC = -1.0


class SyntheticAcceptor:
    """Implements Acceptor over another one, whose work is done all the same. Each draft is kept with a probability,
    whatever it is, as long as those before it are. `probability` float64 [1] is on the device, so that captured rounds
    follow it; NOT_SYNTHETIC leaves the choice to the other one."""

    def __init__(self, acceptor: Acceptor, device: torch.device) -> None:
        self._acceptor = acceptor
        self.probability = torch.full((1,), NOT_SYNTHETIC, dtype=torch.float64, device=device)

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
        at = rows.positions[:, :-1]
        seeds = rows.table.seeds.index_select(0, rows.slots).unsqueeze(1).expand_as(at)
        place = torch.arange(at.shape[1], device=at.device)
        kept = (uniform(seeds, at, Purpose.ACCEPT) < self.probability) & (place < drafts.counts.unsqueeze(1))
        synthetic = kept.long().cumprod(1).sum(1) + 1
        found = torch.where(self.probability < 0, chosen.offered, synthetic)
        offered.index_copy_(0, rows.slots, found)
        return dataclasses.replace(chosen, packed=torch.cat((found.unsqueeze(1), chosen.packed[:, 1:]), dim=1))


def expected_tokens(probability: float, draft_tokens: int) -> float:
    """Tokens that a round gives on average: 1 + P + P² + ... + P^K."""
    return sum(probability**kept for kept in range(draft_tokens + 1))
