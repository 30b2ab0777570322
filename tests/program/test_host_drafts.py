"""What is taken of a drafter on the host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy
import pytest

from ninfer_core.api import PluginBroken
from ninfer_core.program.host_drafts import AskedHostDrafts
from ninfer_core.testing.scripted_drafters import HostAdversary


class Proposing(HostAdversary):
    """Proposes what it was made with, whatever that is."""

    def __init__(self, proposed: Any) -> None:
        super().__init__()
        self.proposed = proposed

    def propose(self, row: int, most: int) -> Any:
        return self.proposed


def told(proposed: Any) -> tuple[int, ...]:
    return AskedHostDrafts(Proposing(proposed), "spec plugin 'x'", draft_tokens=3, token_domain=10).propose(0)


@pytest.mark.parametrize(
    ("proposed", "numbers"),
    [
        ((), (0, 0, 0, 0)),
        ([4, 5], (2, 4, 5, 0)),
        ([4, 5, 6, 7, 8], (3, 4, 5, 6)),
        (numpy.array([4, 5]), (2, 4, 5, 0)),
        ([4, 10, 5], (1, 4, 0, 0)),
        ([-1], (0, 0, 0, 0)),
        ([True, 1], (0, 0, 0, 0)),
        ([4, 5.0], (1, 4, 0, 0)),
        ([None], (0, 0, 0, 0)),
    ],
)
def test_tokens_up_to_the_first_that_is_none(proposed: Any, numbers: tuple[int, ...]) -> None:
    found = told(proposed)
    assert found == numbers and all(type(number) is int for number in found)


def test_one_that_never_ends_is_cut() -> None:
    assert told(count(7)) == (3, 7, 8, 9)


def test_one_that_fails_while_it_is_read_is_named() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise LookupError("no such text")

    with pytest.raises(PluginBroken, match="'x' failed in its drafter's propose: LookupError: no such text"):
        told(failing())
    with pytest.raises(PluginBroken, match="failed in its drafter's propose: TypeError"):
        told(7)
