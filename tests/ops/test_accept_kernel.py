"""The Triton acceptor against the reference: the same tokens for the same inputs, in the interpreter or on a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ninfer_core.ops.accept import Acceptor, Drafts, ReferenceAcceptor, select
from ninfer_core.ops.sample import CANDIDATES, ChosenRows, SamplerTable

VOCABULARY, DOMAIN, SLOTS = 300, 270, 6


@pytest.fixture(scope="module")
def acceptor(kernel_device: torch.device) -> Acceptor:
    from ninfer_core.ops.accept.triton import TritonAcceptor
    from ninfer_core.ops.kernels.maxima import Launch

    return TritonAcceptor(Launch(group_tokens=32, block_groups=4, maxima_warps=4, draw_warps=4))


def table(**fields: Any) -> SamplerTable:
    defaults: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "presence": 0.0, "frequency": 0.0}
    values = [
        torch.tensor(each if isinstance(each, list) else [each] * SLOTS) for each in {**defaults, **fields}.values()
    ]
    return SamplerTable(
        torch.stack([each.float() for each in values], dim=1),
        torch.tensor([CANDIDATES, 1, 5, CANDIDATES, 3, CANDIDATES]),
        torch.tensor([3, -5, 1 << 62, 0, -(1 << 63), 9]),
    )


def likely_drafts(logits: torch.Tensor, rows: int, columns: int, law_width: int) -> Drafts:
    """Drafts that are kept now and then: drawn among the best tokens of their column, from a law over them."""
    values, best = logits.float().view(rows, columns, -1)[:, :-1, :DOMAIN].topk(max(2, law_width), dim=-1)
    counts = torch.randint(0, columns, (rows,))
    counts[0] = columns - 1
    if not law_width:
        return Drafts(best[..., 0].contiguous(), counts)
    probabilities = values.softmax(-1)
    drawn = torch.multinomial(probabilities.flatten(0, 1), 1).view(rows, columns - 1, 1)
    return Drafts(best.gather(2, drawn).squeeze(2), counts, best, probabilities)


def compare(
    acceptor: Acceptor, device: torch.device, logits: torch.Tensor, drafts: Drafts, settings: SamplerTable
) -> Any:
    """Both acceptors on the same inputs, on slots in another order than the rows: -> what `acceptor` offered."""
    rows = drafts.counts.shape[0]
    columns = logits.shape[0] // rows
    slots = torch.randperm(SLOTS)[:rows]
    counts = torch.randint(0, 3, (SLOTS, VOCABULARY), dtype=torch.int32)
    positions = torch.randint(0, 1000, (rows, 1)) + torch.arange(columns)
    expected_candidates, expected_offered = torch.full((SLOTS, columns + 1), -1), torch.full((SLOTS,), -1)
    chosen = ChosenRows(settings, counts, slots, positions, DOMAIN)
    expected = ReferenceAcceptor().accept(logits, drafts, chosen, expected_candidates, expected_offered)
    assert torch.equal(expected_offered[slots], expected.offered)

    def there(value: Any) -> Any:
        if isinstance(value, SamplerTable | Drafts | ChosenRows):
            return type(value)(*(there(getattr(value, name)) for name in value.__slots__))
        return value.to(device) if isinstance(value, torch.Tensor) else value

    candidates = torch.full_like(expected_candidates, -1).to(device)
    offered_by_slot = torch.full((SLOTS,), -1, device=device)
    actual = acceptor.accept(there(logits), there(drafts), there(chosen), candidates, offered_by_slot)
    assert torch.equal(actual.offered.cpu(), expected.offered)
    assert torch.equal(actual.drafted.cpu(), drafts.counts)
    assert torch.equal(offered_by_slot.cpu(), expected_offered)
    offered = torch.arange(columns) < expected.offered.unsqueeze(1)
    assert torch.equal(actual.tokens.cpu()[offered], expected.tokens[offered])
    assert ((actual.tokens >= 0) & (actual.tokens < DOMAIN)).all()
    expected_candidates[slots, :columns] = actual.tokens.cpu()
    assert torch.equal(candidates.cpu(), expected_candidates)
    return actual.offered.cpu()


MIXED = {
    "temperature": [0.0, 0.3, 1.0, 0.7, 0.3, 1.7],
    "top_p": [1.0, 0.9, 0.95, 1.0, 0.8, 1.0],
    "min_p": [0.0, 0.0, 0.0, 0.1, 0.0, 0.02],
    "presence": [1.5, 0.0, 0.0, 0.0, 1.5, -0.7],
    "frequency": [0.3, 0.0, 0.0, 0.0, 0.3, 0.0],
}
"""By slot: greedy rows, rows of every filter, and with penalties."""


@pytest.mark.parametrize("law_width", [0, 5, 16])
def test_the_tokens_of_the_reference(acceptor: Acceptor, kernel_device: torch.device, law_width: int) -> None:
    offered = []
    for rows, columns in ((1, 2), (6, 3)):
        logits = torch.randn(rows * columns, VOCABULARY) * 4
        logits[:, DOMAIN:] = 90.0
        drafts = likely_drafts(logits, rows, columns, law_width)
        offered += compare(acceptor, kernel_device, logits, drafts, table(**MIXED)).tolist()
    assert max(offered) > 1


def test_laws_that_are_none(acceptor: Acceptor, kernel_device: torch.device) -> None:
    logits = torch.randn(10, VOCABULARY).bfloat16()
    drafts = likely_drafts(logits, 5, 2, 16)
    drafts.counts.fill_(1)
    assert drafts.probabilities is not None
    drafts.probabilities[0] = float("nan")
    drafts.probabilities[1, :, ::2] = -1.0
    drafts.probabilities[2] = float("inf")
    drafts.probabilities[3] = 0.0
    drafts.probabilities[4] = 1e30
    offered = compare(acceptor, kernel_device, logits, drafts, table())
    assert offered[0] == offered[2] == offered[3] == 1


def test_a_draft_counts_for_the_columns_behind_it(acceptor: Acceptor, kernel_device: torch.device) -> None:
    """Under a penalty the same draft, three times over, is the best token at first and never again."""
    logits = torch.zeros(4, VOCABULARY)
    logits[:, 7], logits[:, 9] = 30.0, 20.0
    drafts = Drafts(torch.tensor([[7, 7, 7]]), torch.tensor([3]))
    fields = {"temperature": 0.01, "presence": 15.0}
    counts = torch.zeros(SLOTS, VOCABULARY, dtype=torch.int32, device=kernel_device)
    settings = SamplerTable(*(getattr(table(**fields), name).to(kernel_device) for name in SamplerTable.__slots__))
    slots, positions = torch.zeros(1, dtype=torch.int64), torch.arange(4).view(1, 4)
    for each in (acceptor, ReferenceAcceptor()):
        there = Drafts(drafts.token_ids.to(kernel_device), drafts.counts.to(kernel_device))
        candidates = torch.zeros(SLOTS, 4, dtype=torch.int64, device=kernel_device)
        kept = torch.zeros(SLOTS, dtype=torch.int64, device=kernel_device)
        rows = ChosenRows(settings, counts, slots.to(kernel_device), positions.to(kernel_device), DOMAIN)
        accepted = each.accept(logits.to(kernel_device), there, rows, candidates, kept)
        assert accepted.offered.item() == 2
        assert accepted.tokens[0, :2].tolist() == [7, 9]


def test_who_asks_gets_the_reference() -> None:
    assert isinstance(select(torch.device("cpu"), "auto"), ReferenceAcceptor)
    assert isinstance(select(torch.device("cuda"), "reference"), ReferenceAcceptor)
