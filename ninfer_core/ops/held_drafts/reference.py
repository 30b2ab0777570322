"""Drafts that can be looked at, in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class HeldDrafts:
    """See the package."""

    token_ids: torch.Tensor
    counts: torch.Tensor
    columns: torch.Tensor


def hold_drafts(
    token_ids: torch.Tensor,
    meant: torch.Tensor | None,
    law_ids: torch.Tensor | None,
    anchors: torch.Tensor,
    token_domain: int,
) -> HeldDrafts:
    """See the package."""
    known = (token_ids >= 0) & (token_ids < token_domain)
    counts = known.long().cumprod(1).sum(1)
    instead = torch.zeros_like(token_ids)
    if law_ids is not None:
        counts = (counts + 1).clamp(max=token_ids.shape[1])
        # Of one token more than the support has, at least one is not in it.
        spare = torch.arange(law_ids.shape[2] + 1, device=law_ids.device).view(1, 1, -1, 1)
        instead = (law_ids.unsqueeze(2) != spare).all(-1).long().argmax(-1)
    if meant is not None:
        counts = torch.minimum(counts, meant.clamp(min=0))
    held = torch.where(known, token_ids, instead)
    return HeldDrafts(held, counts, torch.cat((anchors, held), dim=1))
