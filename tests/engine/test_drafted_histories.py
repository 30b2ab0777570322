"""Random histories on a program with drafts: every request gets what it gets alone without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from ninfer_core.api import Draft, DraftColumns, DrafterNeeds, DraftSampling
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.rows import Row
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import BACKEND, Remembering, with_drafter, with_needs
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan
from tests.engine.test_real_histories import MAX_CONTEXT, Played, play_alone, play_many

SIZES = {"max_context": MAX_CONTEXT, "max_concurrency": 4, "kv_capacity": MAX_CONTEXT + 5 * 64}
DRAFTS = 4


class Experienced:
    """A drafter on the device that knows what has come behind three tokens, in whatever sequence that was: right for
    most of what it has seen before. `told` are the tokens of each slot."""

    def __init__(self, drafts: int, positions: int, slots: int) -> None:
        self._drafts = drafts
        self._told = torch.zeros(slots, positions, dtype=torch.int64)
        self._behind: dict[tuple[int, ...], int] = {}

    def ingest(self, columns: DraftColumns) -> None:
        self._see(columns)

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        self._see(columns)
        drafts = []
        for slot, length in zip(columns.slots, columns.lengths, strict=True):
            tokens = self._told[slot, max(0, length - 2) : length + 1].tolist()
            for _ in range(self._drafts):
                tokens.append(self._behind.get(tuple(tokens[-3:]), 0))
            drafts.append(tokens[-self._drafts :])
        return Draft(torch.tensor(drafts))

    def _see(self, columns: DraftColumns) -> None:
        rows = zip(columns.slots, columns.positions, columns.token_ids, columns.counts, strict=True)
        for slot, positions, token_ids, count in rows:
            self._told[slot, positions[:count] + 1] = token_ids[:count]
            for position in positions[:count].tolist():
                tokens = self._told[slot, max(0, position - 2) : position + 2].tolist()
                self._behind[tuple(tokens[:-1])] = tokens[-1]


def played_with(registry: PluginRegistry, drafter: object, needs: DrafterNeeds) -> Played:
    """Requests whose outcomes are those of a plain program, for one with the drafter."""
    torch.set_num_threads(1)
    (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]
    artifact = tiny_artifact()
    frontend = registry.load(offer).hook.ninfer_family_frontend(header=artifact.header)
    header = with_needs(artifact.header, needs)
    plans = [tiny_plan(registry, header, **SIZES, **more) for more in ({}, {"spec": BACKEND, "draft_tokens": DRAFTS})]
    programs = []
    for plan in plans:
        with artifact.open_weights() as weights:
            given = with_drafter(header, drafter)
            programs.append(build_program(plan, given, weights, registry, torch.device("cpu"), lambda *_: None))
    alone = play_alone(plans[0], programs[0], frontend)
    return Played(plans[1], programs[1], frontend, alone.pool, alone.alone)


@pytest.fixture(scope="module")
def drafted(scripted: PluginRegistry) -> tuple[Played, Remembering]:
    """With a drafter on the host that has seen the answers."""
    drafter = Remembering()
    ready = played_with(scripted, drafter, DrafterNeeds(runs_on="host"))
    for wish, expected in zip(ready.pool, ready.alone, strict=True):
        assert ready.answer(wish) == expected, "also by a drafter that knows nothing yet"
    return ready, drafter


@pytest.fixture(scope="module")
def ahead(scripted: PluginRegistry) -> Iterator[tuple[Played, Counter[int]]]:
    """With a drafter on the device, whose program goes ahead as on a GPU, and how often a round was found to have taken
    so many tokens of the one before it."""
    drafter = Experienced(DRAFTS, MAX_CONTEXT + 2 * DRAFTS, SIZES["max_concurrency"])
    taken: Counter[int] = Counter()
    collected = Row.collected

    def counted(row: Row, candidates: tuple[int, ...]) -> None:
        if row.uncollected == 2:
            taken[min(len(candidates), row.assumed)] += 1
        collected(row, candidates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeviceProgram, "goes_ahead", True)
        patch.setattr(Row, "collected", counted)
        yield played_with(scripted, drafter, DrafterNeeds()), taken


@pytest.mark.contract("EXEC-1", "EXEC-2", "EXEC-8", "TMPL-12", "CHAT-11")
def test_random_histories_with_drafts_change_no_text(drafted: tuple[Played, Remembering]) -> None:
    played, drafter = drafted
    seen = play_many(played, range(12))
    assert {"client_disconnected", "output_limit", "stop_string", "control"} <= {
        what for what, count in seen.items() if count
    }
    assert drafter.told == {} and drafter.proposed > 50


@pytest.mark.contract("EXEC-1", "EXEC-2", "EXEC-8", "TMPL-12", "CHAT-11")
def test_random_histories_that_go_ahead_with_drafts_change_no_text(ahead: tuple[Played, Counter[int]]) -> None:
    """Budgets, stops and limits inside rounds that another one was launched behind, and cancels between them."""
    played, taken = ahead
    seen = play_many(played, range(1, 25, 2))
    assert taken[1] > 20 and sum(taken[several] for several in range(2, 2 + DRAFTS)) > 3, taken
    assert {"client_disconnected", "output_limit", "stop_string", "control"} <= {
        what for what, count in seen.items() if count
    }


@pytest.mark.long
def test_two_hundred_histories_that_go_ahead(ahead: tuple[Played, Counter[int]]) -> None:
    seen: Counter[str] = play_many(ahead[0], range(3001, 3401, 2))
    limits = ("request_queue_timeout", "output_limit", "context_capacity", "stop_string")
    assert all(seen[what] for what in ("client_disconnected", *limits, "control"))


@pytest.mark.long
def test_two_hundred_histories_with_drafts(drafted: tuple[Played, Remembering]) -> None:
    seen: Counter[str] = play_many(drafted[0], range(2000, 2200))
    limits = ("request_queue_timeout", "output_limit", "context_capacity", "stop_string")
    assert all(seen[what] for what in ("client_disconnected", *limits, "control"))
