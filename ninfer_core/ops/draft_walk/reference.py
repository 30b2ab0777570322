"""The choice of a block's drafts in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.sample import Purpose, TokenLaw, draw, largest, uniform
from ninfer_core.ops.workspace.draft_walk import CHOICES


@dataclass(frozen=True, slots=True)
class Codebooks:
    """[vocabulary_rows, rank] each: by the token before, and by the token that may be drafted."""

    predecessor: torch.Tensor
    successor: torch.Tensor


@dataclass(frozen=True, slots=True)
class LogitTransform:
    """What is done to logits before they are scores. `multiplier` is above 0, so that their order stays."""

    multiplier: float = 1.0
    softcap: float | None = None

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        scaled = logits * self.multiplier
        return scaled if self.softcap is None else torch.tanh(scaled / self.softcap) * self.softcap


@dataclass(frozen=True, slots=True)
class Walk:
    """The drafts and the laws that they were drawn from; see the package for shapes."""

    token_ids: torch.Tensor
    law_ids: torch.Tensor
    probabilities: torch.Tensor


def draft_walk(
    logits: torch.Tensor,
    proposed_ids: torch.Tensor | None,
    states: torch.Tensor,
    codebooks: Codebooks,
    transform: LogitTransform,
    anchors: torch.Tensor,
    positions: torch.Tensor,
    temperature: torch.Tensor,
    seeds: torch.Tensor,
) -> Walk:
    """See the package."""
    rows, drafts, _ = logits.shape
    values, places = largest(logits.float().flatten(0, 1), CHOICES)
    ids = (places if proposed_ids is None else proposed_ids[places]).view(rows, drafts, CHOICES)
    unary = transform(values).view(rows, drafts, CHOICES)
    heat = torch.where(temperature > 0, temperature, 1.0).double().unsqueeze(1)
    chosen, laws = [anchors], []
    for step in range(drafts):
        state = codebooks.predecessor[chosen[-1]].float() * states[:, step].float()
        edges = (codebooks.successor[ids[:, step]].float() * state.unsqueeze(1)).sum(-1)
        scores = unary[:, step] + edges
        wide = scores.double()
        weights = torch.exp((wide - wide.amax(-1, keepdim=True)) / heat)
        best = ids[:, step].gather(1, scores.argmax(-1, keepdim=True)).squeeze(1)
        drawn = draw(TokenLaw(ids[:, step], weights), uniform(seeds, positions[:, step], Purpose.DRAFT))
        token = torch.where(temperature > 0, drawn, best)
        law = torch.where(
            temperature.unsqueeze(1) > 0, weights / weights.sum(-1, keepdim=True), ids[:, step] == token.unsqueeze(1)
        )
        chosen.append(token)
        laws.append(law.float())
    return Walk(torch.stack(chosen[1:], dim=1), ids, torch.stack(laws, dim=1))
