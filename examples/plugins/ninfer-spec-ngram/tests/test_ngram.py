from __future__ import annotations

import pytest
from ninfer_spec_ngram import NgramDrafter

from ninfer_core.testing.drafter import DrafterConformance
from ninfer_core.testing.manifest import ManifestConformance


class TestManifest(ManifestConformance):
    kind = "spec"
    plugin = "ngram"


class TestDrafter(DrafterConformance):
    plugin = "ngram"


def drafts(text: list[int], most: int = 5) -> list[int]:
    drafter = NgramDrafter()
    drafter.open(0)
    drafter.extend(0, text)
    return list(drafter.propose(0, most))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([], []),
        ([1, 2, 3, 4], []),
        ([1, 2, 3, 9, 8, 1, 2], [3, 9, 8, 1, 2]),
        # The longest match wins over a later shorter one.
        ([1, 2, 3, 4, 5, 0, 3, 4, 6, 1, 2, 3, 4], [5, 0, 3, 4, 6]),
        # Of equal ones the last.
        ([1, 2, 7, 1, 2, 8, 1, 2], [8, 1, 2, 8, 1]),
        ([4, 5, 4, 5, 4], [5, 4, 5, 4, 5]),
        ([6, 6, 6], [6, 6, 6, 6, 6]),
    ],
)
def test_it_drafts_what_followed_before(text: list[int], expected: list[int]) -> None:
    assert drafts(text) == expected


def test_rows_know_nothing_of_each_other() -> None:
    drafter = NgramDrafter()
    drafter.open(0)
    drafter.open(1)
    drafter.extend(0, [1, 2, 3, 1, 2])
    drafter.extend(1, [7, 1, 2])
    assert (list(drafter.propose(0, 1)), list(drafter.propose(1, 1))) == ([3], [])
    drafter.close(0)
    drafter.open(0)
    drafter.extend(0, [5, 1, 2])
    assert list(drafter.propose(0, 3)) == []
