"""What the core does with drafts before it looks at them."""

from __future__ import annotations

import torch

from ninfer_core.api import Draft
from ninfer_core.ops.accept import accept
from ninfer_core.ops.sample import ChosenRows, Purpose, SamplerTable, uniform
from ninfer_core.program.drafting import DraftBounds, held_to

BOUNDS = DraftBounds(draft_tokens=3, token_domain=6, law_width=2)
ROWS = 20_000


def test_a_certain_draft_that_is_no_token_ends_those_of_its_row() -> None:
    draft = Draft(torch.tensor([[1, 2, 3], [1, 6, 3], [-1, 2, 3], [1, 2, 9]]), torch.tensor([2, 3, 3, 7]))
    held = held_to(draft, BOUNDS)
    assert held.counts.tolist() == [2, 1, 0, 2]
    assert bool(((held.token_ids >= 0) & (held.token_ids < BOUNDS.token_domain)).all())


def test_a_drawn_draft_that_is_no_token_is_the_last_one_and_one_that_its_law_does_not_have() -> None:
    law_ids = torch.tensor([[[1, 4], [0, 7], [3, 2]], [[1, 4], [2, 3], [0, 1]]])
    draft = Draft(torch.tensor([[1, 7, 3], [1, 2, 8]]), None, law_ids, torch.full((2, 3, 2), 0.5))
    held = held_to(draft, BOUNDS)
    assert held.counts.tolist() == [2, 3]
    assert held.token_ids.tolist() == [[1, 1, 3], [1, 2, 2]]


def test_tokens_have_the_law_of_the_target_where_drafts_are_drawn_from_what_is_no_token() -> None:
    """Half of what is drafted are rows of the embedding that no token has: chi-square over the six tokens."""
    bounds = DraftBounds(draft_tokens=1, token_domain=6, law_width=2)
    seeds, place = torch.arange(ROWS), torch.full((ROWS,), 5)
    drawn = torch.where(uniform(seeds, place, Purpose.DRAFT) < 0.5, 7, 2)
    law_ids = torch.tensor([7, 2]).expand(ROWS, 1, 2)
    held = held_to(Draft(drawn.unsqueeze(1), None, law_ids, torch.full((ROWS, 1, 2), 0.5)), bounds)
    logits = torch.tensor([0.3, -0.4, 0.2, 0.9, 0.0, -1.0, 5.0, 5.0]).repeat(2 * ROWS, 1)
    numbers = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]).repeat(ROWS, 1)
    table = SamplerTable(numbers, torch.full((ROWS,), 20), seeds)
    counts = torch.zeros(ROWS, 8, dtype=torch.int32)
    positions = torch.tensor([[5, 6]]).repeat(ROWS, 1)
    rows = ChosenRows(table, counts, torch.arange(ROWS), positions, bounds.token_domain)
    tokens = accept(logits, held, rows).tokens[:, 0]
    expected = logits[0, :6].softmax(0).double() * ROWS
    found = torch.bincount(tokens, minlength=6).double()
    statistic = float(((found - expected) ** 2 / expected).sum())
    assert statistic < 20.5, f"five degrees of freedom: one in a thousand is above ({statistic:.1f})"
