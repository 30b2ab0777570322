"""The conformance suite of drafters finds drafters that are wrong: each of these breaks one promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ninfer_core.api import Draft, DraftColumns, DraftSampling, PluginBroken
from ninfer_core.testing.drafter import DrafterConformance, Stage, staged
from ninfer_core.testing.plugins import write_plugin_package
from ninfer_core.testing.watched_drafter import WatchedDrafter

SUITE = DrafterConformance()
SOURCE = '''
"""Drafts that follow from all of a row's tokens."""
from ninfer_core.api import DrafterNeeds, DraftTokens, hookimpl

class Drafter:
    def __init__(self):
        self.texts = {}

    def open(self, row):
        self.texts[row] = []

    def extend(self, row, token_ids):
        self.texts[row].extend(token_ids)

    def propose(self, row, most):
        known = sum(place * token for place, token in enumerate(self.texts[row]))
        return [(known + place) % 256 for place in range(most)]

    def close(self, row):
        del self.texts[row]

class Sticky(Drafter):
    def open(self, row):
        self.texts.setdefault(row, [])

    def close(self, row):
        pass

class Mixing(Drafter):
    def extend(self, row, token_ids):
        for text in self.texts.values():
            text.extend(token_ids)

class Overdoing(Drafter):
    def propose(self, row, most):
        return super().propose(row, most + 1)

class Forgetful(Drafter):
    def extend(self, row, token_ids):
        super().extend(row, token_ids[-4:])

class Restless(Drafter):
    def propose(self, row, most):
        self.texts[row].append(1)
        return super().propose(row, most)

class Silent(Drafter):
    def propose(self, row, most):
        return []

@hookimpl
def ninfer_spec_draft_tokens(header):
    return DraftTokens(most=15, default=3)

@hookimpl
def ninfer_spec_needs(header, geometry, shape):
    return DrafterNeeds(runs_on="host")

@hookimpl
def ninfer_spec_build(header, shape, model, weights, device):
    return {DRAFTER}()
'''


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Iterator[Stage]]:
    def build(drafter: str) -> Iterator[Stage]:
        name = drafter.lower()
        source = SOURCE.replace("{DRAFTER}", drafter)
        write_plugin_package(tmp_path, f"ninfer-spec-{name}", {f"spec:{name}": source})
        monkeypatch.syspath_prepend(str(tmp_path))
        return staged(None, {"spec": name})

    return build


DEPEND, COUNT = (
    SUITE.test_drafts_depend_on_their_own_text_alone,
    SUITE.test_tokens_that_were_put_there_count_like_others,
)
BREAKS = {
    "Sticky": DEPEND,
    "Mixing": DEPEND,
    "Overdoing": DEPEND,
    "Forgetful": DEPEND,
    "Restless": DEPEND,
    "Silent": COUNT,
}


def test_a_right_one_passes(stage: Callable[[str], Iterator[Stage]]) -> None:
    for drafting in stage("Drafter"):
        DEPEND(drafting)
        COUNT(drafting)


@pytest.mark.parametrize("mistake", BREAKS)
def test_a_mistake_is_found(mistake: str, stage: Callable[[str], Iterator[Stage]]) -> None:
    for drafting in stage(mistake):
        with pytest.raises((AssertionError, PluginBroken)):
            BREAKS[mistake](drafting)


class OnDevice:
    """Right, until a subclass makes a mistake."""

    def __init__(self) -> None:
        self.calls = 0

    def ingest(self, columns: DraftColumns) -> None:
        return

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        self.calls += 1
        ids = columns.anchors[:, None, None] + torch.arange(4)
        law = torch.tensor([0.4, 0.3, 0.2, 0.1]).expand(len(ids), 1, 4)
        return self.made(columns, Draft(ids[:, :, 1], None, ids, law))

    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        return draft


class ReadsJunk(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        return Draft(columns.token_ids[:, -1:])


class ReadsJunkFeatures(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        return Draft(columns.features.sum((1, 2, 3), keepdim=False)[:, None].long())


class KeepsElsewhere(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        return Draft(draft.token_ids + self.calls)


class NoLaw(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        assert draft.probabilities is not None
        return Draft(draft.token_ids, None, draft.law_ids, draft.probabilities * 1.1)


class NamesTwice(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        assert draft.law_ids is not None
        return Draft(draft.token_ids, None, draft.law_ids // 2, draft.probabilities)


class OutsideItsLaw(OnDevice):
    def made(self, columns: DraftColumns, draft: Draft) -> Draft:
        return Draft(draft.token_ids + 50, None, draft.law_ids, draft.probabilities)


def columns() -> DraftColumns:
    """Two rows, one of which has junk behind its first column."""
    return DraftColumns(
        slots=torch.tensor([1, 0]),
        positions=torch.tensor([[4, 5], [7, 8]]),
        token_ids=torch.tensor([[11, 12], [13, 14]]),
        features=torch.ones(2, 2, 1, 3),
        counts=torch.tensor([1, 2]),
        anchors=torch.tensor([11, 14]),
        lengths=torch.tensor([5, 9]),
        state={},
        cache=lambda lengths: pytest.fail("no cache is needed"),
    )


def watched(drafter: Any) -> WatchedDrafter:
    pools: Any = SimpleNamespace(planes=(), drafter_state={})
    return WatchedDrafter(drafter, pools, law_width=4)


WARM = DraftSampling(torch.tensor([0.8, 0.0]), torch.tensor([1, 2]))


def test_what_a_right_one_drafts_is_kept() -> None:
    drafter = watched(OnDevice())
    drafter.propose(columns(), WARM)
    assert [(each.row, each.tokens, each.drafts) for each in drafter.proposals] == [(1, 6, (12,)), (0, 10, (15,))]
    # The greedy row has no law; the other one drew what is not the likeliest.
    assert (drafter.likeliest.count, drafter.likeliest.drawn) == (1, 0.0)
    assert drafter.likeliest.expected == pytest.approx(0.4)


@pytest.mark.parametrize("mistake", [ReadsJunk, ReadsJunkFeatures, KeepsElsewhere, NoLaw, NamesTwice, OutsideItsLaw])
def test_a_mistake_on_the_device_is_found(mistake: type[OnDevice]) -> None:
    with pytest.raises(AssertionError):
        watched(mistake()).propose(columns(), WARM)
