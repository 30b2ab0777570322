"""The likeliest token: the first of the largest logits, whatever block it is in."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.likeliest import likeliest, select


def by_hand(logits: torch.Tensor, token_ids: torch.Tensor | None) -> list[list[int]]:
    found = []
    for row in logits.double().tolist():
        places = [column.index(max(column)) for column in row]
        found.append([place if token_ids is None else int(token_ids[place]) for place in places])
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("proposed", [1, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("route", ["reference", "kernel"])
def test_the_first_of_the_largest(dtype: torch.dtype, proposed: int, route: str, kernel_device: torch.device) -> None:
    from ninfer_core.ops.likeliest import triton as kernels

    device = torch.device("cpu") if route == "reference" else kernel_device
    search = likeliest if route == "reference" else kernels.likeliest
    # On a grid, so that many are equal; below zero, so that nothing beyond the end could win; the last one at times.
    logits = (torch.randn(3, 2, proposed) * 4).round().clamp(max=3) - 50
    logits[1, 0, -1] = -2
    logits[2, 1] = float("-inf")
    logits = logits.to(dtype)
    for token_ids in (None, torch.randperm(3 * proposed)[:proposed]):
        there = None if token_ids is None else token_ids.to(device)
        assert search(logits.to(device), there).tolist() == by_hand(logits, token_ids)


@pytest.mark.parametrize("route", ["reference", "kernel"])
def test_logits_that_are_no_numbers_give_some_token_that_is_proposed(route: str, kernel_device: torch.device) -> None:
    from ninfer_core.ops.likeliest import triton as kernels

    device = torch.device("cpu") if route == "reference" else kernel_device
    search = likeliest if route == "reference" else kernels.likeliest
    logits = torch.randn(2, 1, 1500)
    logits[0, 0, 7], logits[1] = float("nan"), float("nan")
    token_ids = torch.arange(1500) + 9000
    found = search(logits.to(device), token_ids.to(device))
    assert bool(((found >= 9000) & (found < 10500)).all())


def test_who_asks_gets_the_reference() -> None:
    assert select(torch.device("cpu"), "auto") is likeliest
    assert select(torch.device("cuda"), "reference") is likeliest
