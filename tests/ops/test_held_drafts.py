"""Drafts are held to what can be looked at, by the words of the contract, number by number."""

from __future__ import annotations

import random

import pytest
import torch

from ninfer_core.ops.held_drafts import hold_drafts, select

DOMAIN = 40


def by_hand(draft: list[int], meant: int | None, law: list[list[int]] | None) -> tuple[list[int], int]:
    """-> held, counts."""
    known = [0 <= each < DOMAIN for each in draft]
    count = known.index(False) if False in known else len(draft)
    held = [each if is_known else 0 for each, is_known in zip(draft, known, strict=True)]
    if law is not None:
        count = min(count + 1, len(draft))
        for place, of_place in enumerate(law):
            if not known[place]:
                held[place] = next(each for each in range(len(of_place) + 1) if each not in of_place)
    return held, count if meant is None else max(0, min(count, meant))


def random_draft(draw: random.Random) -> int:
    return draw.choice((-1, DOMAIN, 2**62, -(2**62), DOMAIN - 1, 0)) if draw.random() < 0.3 else draw.randrange(DOMAIN)


@pytest.mark.parametrize("route", ["reference", "kernel"])
@pytest.mark.parametrize("width", [0, 1, 3, 16])
@pytest.mark.parametrize(("rows", "drafts"), [(1, 1), (3, 3), (5, 7), (2, 15)])
def test_drafts_are_held(rows: int, drafts: int, width: int, route: str, kernel_device: torch.device) -> None:
    from ninfer_core.ops.held_drafts import triton as kernels

    hold = hold_drafts if route == "reference" else kernels.hold_drafts
    device = torch.device("cpu") if route == "reference" else kernel_device
    draw = random.Random(rows * drafts * (1 + width))
    for trial in range(4):
        token_ids = [[random_draft(draw) for _ in range(drafts)] for _ in range(rows)]
        token_ids[0] = [draw.randrange(DOMAIN) for _ in range(drafts)]
        meant = None if trial % 2 else [draw.randint(-2, drafts + 2) for _ in range(rows)]
        # Low numbers and such as no token has, in any order.
        few = [*range(width + 2), DOMAIN + 1, 2**40]
        laws = [[draw.sample(few, width) for _ in range(drafts)] for _ in range(rows)] if width else None
        anchors = [[draw.randrange(DOMAIN)] for _ in range(rows)]
        given, first = torch.tensor(token_ids, device=device), torch.tensor(anchors, device=device)
        of_laws = None if laws is None else torch.tensor(laws, device=device)
        held = hold(given, None if meant is None else torch.tensor(meant, device=device), of_laws, first, DOMAIN)
        expected = [
            by_hand(token_ids[row], None if meant is None else meant[row], None if laws is None else laws[row])
            for row in range(rows)
        ]
        assert held.token_ids.tolist() == [each for each, _ in expected]
        assert held.counts.tolist() == [count for _, count in expected]
        assert held.columns.tolist() == [[*anchors[row], *expected[row][0]] for row in range(rows)]


def test_who_asks_gets_the_reference() -> None:
    assert select(torch.device("cpu"), "auto") is hold_drafts
    assert select(torch.device("cuda"), "reference") is hold_drafts
