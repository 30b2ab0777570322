"""Drafts that are held to what can be looked at keep the law of the target."""

from __future__ import annotations

import torch

from ninfer_core.ops.accept import Drafts, accept
from ninfer_core.ops.held_drafts import hold_drafts
from ninfer_core.ops.sample import ChosenRows, Purpose, SamplerTable, uniform

ROWS = 20_000


def test_tokens_have_the_law_of_the_target_where_drafts_are_drawn_from_what_is_no_token() -> None:
    """Half of what is drafted are rows of the embedding that no token has: chi-square over the six tokens."""
    token_domain = 6
    seeds, place = torch.arange(ROWS), torch.full((ROWS,), 5)
    drawn = torch.where(uniform(seeds, place, Purpose.DRAFT) < 0.5, 7, 2)
    law_ids = torch.tensor([7, 2]).expand(ROWS, 1, 2)
    held = hold_drafts(drawn.unsqueeze(1), None, law_ids, torch.zeros(ROWS, 1, dtype=torch.int64), token_domain)
    drafts = Drafts(held.token_ids, held.counts, law_ids, torch.full((ROWS, 1, 2), 0.5))
    logits = torch.tensor([0.3, -0.4, 0.2, 0.9, 0.0, -1.0, 5.0, 5.0]).repeat(2 * ROWS, 1)
    numbers = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]).repeat(ROWS, 1)
    table = SamplerTable(numbers, torch.full((ROWS,), 20), seeds)
    counts = torch.zeros(ROWS, 8, dtype=torch.int32)
    positions = torch.tensor([[5, 6]]).repeat(ROWS, 1)
    rows = ChosenRows(table, counts, torch.arange(ROWS), positions, token_domain)
    tokens = accept(logits, drafts, rows).tokens[:, 0]
    expected = logits[0, :6].softmax(0).double() * ROWS
    found = torch.bincount(tokens, minlength=6).double()
    statistic = float(((found - expected) ** 2 / expected).sum())
    assert statistic < 20.5, f"five degrees of freedom: one in a thousand is above ({statistic:.1f})"
