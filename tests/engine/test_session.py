from __future__ import annotations

import pytest

from ninfer_core.api.request import Channel
from ninfer_core.api.service import TextDelta
from ninfer_core.engine.session import Ending, OutputSession
from ninfer_core.testing.simulated_frontend import STOP_TOKEN, THINK_END_TOKEN, SimulatedDecoder


def session(
    *,
    channel: Channel = "content",
    stop: tuple[str, ...] = (),
    stop_channels: tuple[Channel, ...] = ("reasoning", "content"),
    limit: int = 100,
) -> OutputSession:
    return OutputSession(
        SimulatedDecoder(channel),
        stop_token_ids=frozenset({STOP_TOKEN}),
        stop=stop,
        stop_channels=stop_channels,
        limit=limit,
        limit_ending=Ending("output_limit"),
    )


def content(text: str) -> tuple[TextDelta, ...]:
    return (TextDelta(channel="content", text=text),)


@pytest.mark.contract("GEN-27")
def test_a_stop_token_is_counted_and_its_text_withheld() -> None:
    under_test = session()
    step = under_test.push((*b"ok", STOP_TOKEN, *b"more"))
    assert (step.accepted, step.deltas, step.ending) == (3, content("ok"), Ending("stop_token"))
    assert under_test.output_tokens == 3


def test_a_stop_string_ends_inside_a_round_of_several_candidates() -> None:
    step = session(stop=("five",)).push(tuple(b"four five six"))
    assert (step.accepted, step.deltas) == (9, content("four "))
    assert step.ending == Ending("stop_string", "five")


def test_held_text_comes_out_at_a_natural_end() -> None:
    under_test = session(stop=("</done>",))
    assert under_test.push(tuple(b"a </do")).deltas == content("a ")
    assert under_test.push((STOP_TOKEN,)).deltas == content("</do")


def test_stop_strings_do_not_match_across_the_think_tag() -> None:
    under_test = session(channel="reasoning", stop=("ab",))
    step = under_test.push((*b"xa", THINK_END_TOKEN, *b"bc"))
    assert step.ending is None
    assert step.deltas == (TextDelta(channel="reasoning", text="xa"), TextDelta(channel="content", text="bc"))


def test_a_stop_string_is_looked_for_in_its_channels_only() -> None:
    under_test = session(channel="reasoning", stop=("b",), stop_channels=("content",))
    step = under_test.push((*b"abc", THINK_END_TOKEN, *b"abc"))
    assert step.deltas == (TextDelta(channel="reasoning", text="abc"), TextDelta(channel="content", text="a"))
    assert step.ending == Ending("stop_string", "b")


@pytest.mark.contract("RESP-56")
def test_reasoning_tokens_are_counted_as_they_are_accepted() -> None:
    under_test = session(channel="reasoning")
    under_test.push((*b"abc", THINK_END_TOKEN, *b"de"))
    assert (under_test.output_tokens, under_test.reasoning_tokens) == (6, 4)


def test_the_limit_cuts_a_round_and_completes_an_open_character() -> None:
    step = session(limit=3).push((*b"ab", *"漢".encode()))
    assert (step.accepted, step.deltas, step.ending) == (3, content("ab\ufffd"), Ending("output_limit"))


def test_a_character_over_two_units_is_delivered_whole() -> None:
    under_test = session()
    assert under_test.push(tuple("漢".encode()[:2])).deltas == ()
    assert under_test.push(tuple("漢".encode()[2:])).deltas == content("漢")


def test_a_stop_string_on_the_last_allowed_token_is_a_stop() -> None:
    assert session(stop=("b",), limit=2).push(tuple(b"ab")).ending == Ending("stop_string", "b")


def test_a_stop_string_completed_by_the_end_itself_wins() -> None:
    step = session(stop=("\ufffd",)).push((ord("a"), 0xE6, STOP_TOKEN))
    assert (step.deltas, step.ending) == (content("a"), Ending("stop_string", "\ufffd"))
