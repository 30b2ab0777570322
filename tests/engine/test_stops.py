from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_core.engine.stops import StopMatcher

TEXT = st.text(alphabet="ab", max_size=24)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4).map(tuple)


def naive(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The text before the match that is complete first, by looking at every prefix."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@pytest.mark.contract("CHAT-11")
@given(TEXT, STOPS, st.lists(st.integers(0, 24), max_size=6))
def test_any_cut_gives_what_the_whole_text_gives(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    matcher = StopMatcher(stops)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    delivered = "".join(matcher.push(text[start:end]) for start, end in pairwise(edges))
    if matcher.stopped_by is None:
        delivered += matcher.flush()
    assert (delivered, matcher.stopped_by) == naive(text, stops)


@given(TEXT, STOPS)
def test_no_more_is_held_than_may_become_a_stop(text: str, stops: tuple[str, ...]) -> None:
    matcher = StopMatcher(stops)
    delivered = matcher.push(text)
    if matcher.stopped_by is None:
        held = text[len(delivered) :]
        assert all(not stop.startswith(text[start:]) for stop in stops for start in range(len(delivered)))
        assert not held or any(stop.startswith(held) for stop in stops)


def test_nothing_comes_out_after_a_match() -> None:
    matcher = StopMatcher(("five",))
    assert matcher.push("three, four, fi") == "three, four, "
    assert matcher.push("ve, six") == ""
    assert matcher.stopped_by == "five"
    assert matcher.push("seven") == ""


def test_a_stop_string_as_long_as_the_text_costs_linear_time() -> None:
    stop = "a" * 200_000 + "b"
    matcher = StopMatcher((stop,))
    assert sum(len(matcher.push("a" * 1000)) for _ in range(201)) == 1000


def test_without_stop_strings_text_is_passed_on_as_it_is() -> None:
    text = "".join(["no one ", "looks at it"])
    assert StopMatcher(()).push(text) is text


def test_an_empty_stop_string_is_nobodys_wish() -> None:
    with pytest.raises(AssertionError):
        StopMatcher(("a", ""))
