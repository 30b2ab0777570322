"""What is told of drafts: those that were checked, and those that became part of the answer."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from ninfer_core.api.service import Finished, Speculation
from ninfer_core.engine.draft_counts import DraftCounts
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.simulated_frontend import STOP_TOKEN, answer_token
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program


def bench(columns: int, seed: int = 0) -> Bench[SimulatedProgram]:
    plan = simulated_plan(max_context=512, kv_pages=32, draft_tokens=columns - 1)
    return Bench(plan, simulated_program(plan, seed=seed))


def finished(under_test: Bench[SimulatedProgram], request_id: int) -> Finished:
    last = under_test.observer.last[request_id]
    assert isinstance(last, Finished), last
    return last


def seed_of_length(tokens: int) -> int:
    """A seed whose answer ends by itself after exactly so many tokens, the stop token included."""
    return next(
        seed
        for seed in range(1_000_000)
        if [answer_token(seed, each) == STOP_TOKEN for each in range(tokens)] == [*[False] * (tokens - 1), True]
    )


@pytest.mark.contract("LOG-16")
def test_a_draft_counts_once_it_is_in_the_answer() -> None:
    counts = DraftCounts()
    assert counts.total() is None
    counts.add(drafted=3, offered=4, taken=4)  # all agreed with, and one token more
    counts.add(drafted=3, offered=4, taken=2)  # the answer is cut: what was agreed with behind it is not in it
    counts.add(drafted=3, offered=1, taken=1)  # none agreed with
    counts.add(drafted=0, offered=1, taken=1)  # nothing drafted
    counts.add(drafted=2, offered=2, taken=1)
    assert counts.total() == Speculation(
        rounds=5, drafted_tokens=11, accepted_tokens=6, fallback_steps=1, accepted_per_position=(3, 2, 1)
    )


def test_counts_of_many_are_the_sum() -> None:
    """Whichever of them has drafted further."""
    for near, far in ((1, 3), (3, 1)):
        counts, more = DraftCounts(), DraftCounts()
        counts.add(drafted=near, offered=near + 1, taken=near + 1)
        more.add(drafted=far, offered=far, taken=far)
        more.add(drafted=0, offered=1, taken=1)
        counts.include(more)
        together = counts.total()
        assert together is not None and (together.rounds, together.drafted_tokens) == (3, 4)
        assert (together.accepted_tokens, together.fallback_steps) == (near + far - 1, 1)
        assert together.accepted_per_position == ((2, 1, 0) if far == 3 else (1, 1, 1))


def test_more_candidates_than_drafts_explain_is_a_mistake_of_the_program() -> None:
    with pytest.raises(AssertionError, match="3 candidates of 1 drafts"):
        DraftCounts().add(drafted=1, offered=3, taken=1)


def test_without_a_drafter_nothing_is_told() -> None:
    under_test = bench(1)
    request_id = under_test.submit(max_output_tokens=20, seed=2)
    under_test.finish()
    assert finished(under_test, request_id).speculation is None


@pytest.mark.contract("OBS-7")
def test_an_answer_without_rounds_has_no_drafts() -> None:
    under_test = bench(4)
    none_wanted, one_wanted = (under_test.submit(max_output_tokens=tokens) for tokens in (0, 1))
    under_test.finish()
    assert finished(under_test, none_wanted).speculation is finished(under_test, one_wanted).speculation is None


@pytest.mark.contract("EXEC-19")
@pytest.mark.parametrize("columns", [2, 5, 16])
@pytest.mark.parametrize("tokens", [1, 5, 9, 13])
def test_nothing_behind_a_stop_token_inside_a_round_is_taken(columns: int, tokens: int) -> None:
    """Handed case sp-06, over many ways to cut the answer into rounds."""
    seed = seed_of_length(tokens)
    for ways in range(20):
        under_test = bench(columns, ways)
        request_id = under_test.submit(seed=seed, max_output_tokens=100)
        under_test.finish()
        under_test.check_text(request_id)
        last = finished(under_test, request_id)
        assert (last.reason, last.usage.output_tokens) == ("stop_token", tokens)
        if tokens > 1:
            assert last.speculation is not None
            assert last.speculation.accepted_tokens + last.speculation.rounds in (tokens - 1, tokens)


@pytest.mark.contract("LOG-23", "LOG-24")
def test_the_engine_counts_what_its_requests_are_told() -> None:
    """Over one interval, cancelled and failed requests apart: the first token of an answer comes from its prompt, and
    tokens that close thinking from nobody's round."""
    plan = simulated_plan(max_context=512, kv_pages=32, draft_tokens=3)
    under_test = Bench(plan, simulated_program(plan), stats_interval_seconds=5.0)
    ids = [
        under_test.submit(seed=seed, max_output_tokens=60, channel="reasoning", thinking_budget=10) for seed in range(6)
    ]
    under_test.finish()
    under_test.clock.now += 5.0
    under_test.step()
    ends = [finished(under_test, request_id) for request_id in ids]
    told = [end.speculation for end in ends if end.speculation is not None]
    (counts,) = under_test.observer.intervals
    assert counts.decode_tokens == sum(end.usage.output_tokens - 1 - end.usage.thinking_control_tokens for end in ends)
    drafts = counts.speculation
    assert drafts is not None
    for name in ("rounds", "drafted_tokens", "accepted_tokens", "fallback_steps"):
        assert getattr(drafts, name) == sum(getattr(each, name) for each in told)
    assert drafts.accepted_tokens > 0
    places = zip_longest(*(each.accepted_per_position for each in told), fillvalue=0)
    assert drafts.accepted_per_position == tuple(sum(place) for place in places)
    assert counts.decode_rows == drafts.rounds


def test_a_cancelled_request_counts_for_nobody_from_there_on() -> None:
    under_test = bench(4)
    kept, cancelled = (under_test.submit(seed=seed, max_output_tokens=60) for seed in (2, 3))
    under_test.step(8)
    under_test.cancel(cancelled)
    under_test.finish()
    under_test.check_text(kept)
    under_test.check_text(cancelled)
    under_test.check_nothing_leaked()
