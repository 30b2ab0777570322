"""How the parser streams, reports and bounds its work; properties over generated text."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.frontend.tool_calls import build_output_parser

from ninfer_core.api import Channel, ChannelText, ParsedToolCall, ToolCallReport, ToolDefinition


def definition(name: str, **types: Any) -> ToolDefinition:
    return ToolDefinition(name=name, parameters={"properties": types}, definition={})


TOOLS = (
    definition("write", path={"type": "string"}, text={"type": "string"}, lines={"type": "integer"}),
    definition("list-all"),
)
_STRINGS = {key: {"type": "string"} for key in ("path", "text", "lines")}
STRING_TOOLS = (definition("write", **_STRINGS), definition("list-all", **_STRINGS))
LIST = "<tool_call>\n<function=list-all>\n</function>\n</tool_call>"


def render(name: str, arguments: dict[str, Any]) -> str:
    """A call as the family's templates write it."""
    parameters = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def read(
    pieces: Iterable[str],
    *,
    tolerant: bool = False,
    channel: Channel = "content",
    tools: tuple[ToolDefinition, ...] = TOOLS,
) -> tuple[str, list[ParsedToolCall], ToolCallReport]:
    parser = build_output_parser(tools, tolerant=tolerant)
    given_out: list[ChannelText | ParsedToolCall] = []
    for piece in pieces:
        given_out += parser.push(ChannelText(channel, piece))
    given_out += parser.finish()
    texts = [each for each in given_out if isinstance(each, ChannelText)]
    assert all(each.text and each.channel == channel for each in texts)
    calls = [each for each in given_out if isinstance(each, ParsedToolCall)]
    assert given_out[len(given_out) - len(calls) :] == calls, "text after a call"
    return "".join(each.text for each in texts), calls, parser.report


def shown_after(text: str, *, tolerant: bool = False) -> str:
    """What has been given out when exactly this much was pushed, in single characters."""
    parser = build_output_parser(TOOLS, tolerant=tolerant)
    pieces = [each for character in text for each in parser.push(ChannelText("content", character))]
    assert all(isinstance(each, ChannelText) for each in pieces)
    return "".join(each.text for each in pieces if isinstance(each, ChannelText))


@pytest.mark.contract("TOOL-14")
@pytest.mark.parametrize(
    ("pushed", "shown"),
    [
        ("Hello", "Hello"),
        ("Hello ", "Hello"),
        ("Hello \n\t\r\n", "Hello"),
        ("Hello w", "Hello w"),
        ("a <", "a"),
        ("a <tool_call", "a"),
        ("a <tool_callx", "a <tool_callx"),
        ("a <<", "a <"),
        ("a < b", "a < b"),
        ("a\u00a0", "a\u00a0"),
        ("a <tool_call>", "a"),
        ("a <tool_call> \n", "a"),
        ("a <tool_call> \n<function=", "a"),
        ("a <tool_call> x", "a <tool_call> x"),
        ("a <tool_call>\n<function=li", "a"),
        ("a <tool_call>\n<function=list-all>", "a"),
        ("a <tool_call>\n<function=nope>", "a <tool_call>\n<function=nope>"),
        ("a <tool_call>\n<function=nope>\n", "a <tool_call>\n<function=nope>\n"),
        (f"a {LIST}\n", "a"),
        (f"a {LIST}\n<tool_call", "a"),
        (f"a {LIST}\n.", f"a {LIST}\n."),
        (f"a {LIST}\n. \n", f"a {LIST}\n. \n"),
    ],
)
def test_only_what_may_be_a_call_is_withheld(pushed: str, shown: str) -> None:
    assert shown_after(pushed) == shown


@pytest.mark.contract("TOOL-14", "TOOL-15", "TOOL-21")
@pytest.mark.parametrize(
    ("pushed", "shown"),
    [
        ("Hello ", "Hello"),
        ("a <fun", "a"),
        ("a <function=nope", "a"),
        ("a <function=nope>", "a <function=nope>"),
        ("a <tool_call> x", "a <tool_call> x"),
        (f"a {LIST}\n<", "a"),
        (f"a {LIST}\nb", "a\nb"),
    ],
)
def test_the_tolerant_reading_withholds_no_more_than_it_must(pushed: str, shown: str) -> None:
    assert shown_after(pushed, tolerant=True) == shown


def test_reasoning_passes_at_once_and_is_not_reported() -> None:
    text, calls, report = read([LIST], channel="reasoning")
    assert (text, calls, report) == (LIST, [], ToolCallReport())


@pytest.mark.contract("TOOL-16")
@given(text=st.text(), tolerant=st.booleans())
def test_without_tools_every_piece_passes_at_once(text: str, tolerant: bool) -> None:
    parser = build_output_parser((), tolerant=tolerant)
    piece = ChannelText("content", LIST + text)
    assert parser.push(piece) == (piece,)
    assert parser.finish() == () and parser.report == ToolCallReport()


@pytest.mark.contract("TOOL-4", "TOOL-6", "TOOL-12")
def test_the_report_counts_what_happened_in_structured_calls() -> None:
    first = render("write", {"path": "a", "lines": "many"})
    second = render("write", {"lines": "", "other": "x", "text": ""})
    _, calls, report = read([f"Hi {first}\n{second}"])
    assert calls == [("write", {"path": "a", "lines": "many"}), ("write", {"other": "x", "text": ""})]
    assert report == ToolCallReport(
        marker_seen=True, structured_calls=2, empty_arguments_omitted=1, schema_mismatches=2, fallback_reason="none"
    )


@pytest.mark.contract("TOOL-12", "TOOL-13")
def test_a_region_that_is_text_reports_its_reason_alone() -> None:
    _, calls, report = read([render("write", {"lines": "many"}), "!"])
    assert calls == []
    assert report == ToolCallReport(marker_seen=True, fallback_reason="trailing_content")


@pytest.mark.contract("TOOL-12")
def test_the_reason_is_the_first_in_the_order_of_the_text() -> None:
    assert read([render("nope", {"a": "1"}), "!"])[2].fallback_reason == "undeclared_tool"
    assert read([LIST, "!", render("nope", {})])[2].fallback_reason == "trailing_content"
    twice = "<tool_call><function=write><parameter=path>a</parameter><parameter=path>"
    assert read([twice])[2].fallback_reason == "duplicate_parameter"


def test_an_answer_turns_calls_that_ended_thinking_back_into_reasoning() -> None:
    parser = build_output_parser(TOOLS, tolerant=True)
    assert parser.push(ChannelText("reasoning", f"hm\n{LIST} \n")) == (ChannelText("reasoning", "hm"),)
    assert parser.push(ChannelText("content", "")) == ()
    assert parser.push(ChannelText("content", "so")) == (
        ChannelText("reasoning", f"\n{LIST} \n"),
        ChannelText("content", "so"),
    )
    assert parser.finish() == () and not parser.report.marker_seen


FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<function=write>", "<function=list-all>", "<function=nope>", "</function>"),
        *(
            "<parameter=path>",
            "<parameter=lines>",
            "</parameter>",
            "<parameter=",
            "<function=write\n",
            "function=write>",
        ),
        *("\n", " ", "\t", "text", "<", ">", "</", "`", "\n```\n", "3", '{"a": 1}', "é漢🚀", "<think>", "</think>"),
        *(LIST, LIST[:-12], "<tool_call>\n<function=write>\n", "</function>\n</tool_call>"),
        *(render("write", {"path": "p"}), render("write", {"text": LIST, "lines": 2})),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=3), max_size=16).map("".join)
CHANNELS = st.sampled_from(["content", "reasoning"])


@settings(max_examples=250, deadline=None)
@given(text=TEXTS, cuts=st.lists(st.floats(0, 1), max_size=5), tolerant=st.booleans(), channel=CHANNELS)
def test_no_cut_changes_anything_and_no_text_without_calls_loses_a_byte(
    text: str, cuts: list[float], tolerant: bool, channel: Channel
) -> None:
    whole = read([text], tolerant=tolerant, channel=channel)
    bounds = [0, *sorted(int(cut * len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    assert read(pieces, tolerant=tolerant, channel=channel) == whole
    assert read(text, tolerant=tolerant, channel=channel) == whole
    if not whole[1]:
        assert whole[0] == text


@pytest.mark.contract("TOOL-15", "TOOL-21")
@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_the_tolerant_reading_finds_every_call_of_the_strict_one(text: str) -> None:
    strict = read([text])[1]
    tolerant = iter(read([text], tolerant=True)[1])
    assert all(any(call == other for other in tolerant) for call in strict)


def without_blanks(text: str) -> str:
    return "".join(character for character in text if character not in " \t\r\n")


CALLS = st.lists(
    st.sampled_from(["write", "list-all"]).flatmap(
        lambda name: st.dictionaries(st.sampled_from(sorted(_STRINGS)), TEXTS).map(lambda given: render(name, given))
    ),
    max_size=3,
).map("\r\n".join)


@pytest.mark.contract("TOOL-13")
@settings(max_examples=200, deadline=None)
@given(before=TEXTS | st.just(""), calls=CALLS, after=st.sampled_from(["", "\n", ".", "<"]))
def test_text_and_rendered_calls_are_all_that_was_there(before: str, calls: str, after: str) -> None:
    """But for blanks between the parts of the markup."""
    text = before + calls + after
    shown, found, _ = read([text], tools=STRING_TOOLS)
    rendered = "".join(render(*call) for call in found)
    assert text.startswith(shown)
    assert without_blanks(shown + rendered) == without_blanks(text)


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | TEXTS


def representable(value: str) -> bool:
    """A CR at the end would be framing together with the template's LF; parameter tags have to balance."""
    tags, depth = value, 0
    while (at := tags.find("parameter")) >= 0:
        if tags[at - 2 : at] == "</" and tags[at + 9 : at + 10] == ">":
            depth -= 1
        elif tags[at - 1 : at] == "<" and tags[at + 9 : at + 10] == "=":
            name, end = tags[at + 10 :], 0
            while end < len(name) and name[end] not in "<>\r\n":
                end += 1
            depth += end > 0 and name[end : end + 1] == ">"
        if depth < 0:
            return False
        tags = tags[at + 9 :]
    return depth == 0 and not value.endswith("\r")


@pytest.mark.contract("TOOL-9", "TOOL-10", "CHAT-41")
@settings(max_examples=200, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=4), before=st.text(st.sampled_from("ab \n"), max_size=8))
def test_strings_come_back_as_they_were_rendered_or_the_whole_region_is_text(values: list[str], before: str) -> None:
    written = [("write", dict(zip(("path", "text"), values[at : at + 2], strict=False))) for at in range(len(values))]
    text = before + "\n".join(render(name, arguments) for name, arguments in written)
    shown, calls, _ = read(text)
    if all(map(representable, values)):
        assert calls == written and shown == before.rstrip(" \n")
    else:
        assert calls != written and (calls or shown == text)


@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(st.sampled_from([LIST, render("write", {"path": "a\n", "lines": 3})]), min_size=1, max_size=3),
    place=st.floats(0, 1),
    length=st.integers(0, 8),
    inserted=FRAGMENTS | st.text(max_size=2),
    tolerant=st.booleans(),
)
def test_a_mutated_region_is_calls_or_text_and_never_an_error(
    text: list[str], place: float, length: int, inserted: str, tolerant: bool
) -> None:
    joined = "\n".join(text)
    at = int(place * len(joined))
    mutated = joined[:at] + inserted + joined[at + length :]
    shown, calls, report = read([mutated], tolerant=tolerant)
    assert calls or shown == mutated
    assert report.structured_calls == len(calls)
    if not tolerant and calls:
        assert report.fallback_reason == "none"


HOSTILE = {
    "openings of nothing": "<" * 64,
    "half markers": "<tool_call" * 6,
    "markers": "<tool_call>" * 6,
    "functions": "<function=write>" * 4,
    "blanks": " \n" * 32,
    "blanks and signs": " " * 63 + ".",
    "calls": LIST,
    "undeclared calls": render("nope", {"a": "b"}),
    "half closings": "</parameter" * 6,
    "nested openers": "<parameter=a>" * 5,
    "openers of nothing": "<parameter=" * 6,
    "opener names": "a" * 64,
    "fences": "```\n" * 16,
}
PREFIXES = {
    "at once": "",
    "in a region": "<tool_call>",
    "in a function": "<tool_call>\n<function=write>\n",
    "in a value": "<tool_call>\n<function=write>\n<parameter=path>\n",
    "in a name": "<tool_call>\n<function=",
    "in a key": "<tool_call>\n<function=write>\n<parameter=",
    "in a nested name": "<tool_call>\n<function=write>\n<parameter=path>\n<parameter=",
    "after a call": LIST,
}


def seconds(text: str, piece: int, tolerant: bool) -> float:
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    gc.disable()
    started = time.process_time()
    read(pieces, tolerant=tolerant)
    taken = time.process_time() - started
    gc.enable()
    return taken


def scales(prefix: str, unit: str, characters: int, piece: int, tolerant: bool) -> bool:
    """Whether eight times the text takes less than twenty times as long; quadratic work would take 64 times."""
    small, large = (prefix + unit * (size // len(unit)) for size in (characters, 8 * characters))
    return seconds(large, piece, tolerant) < 20 * max(seconds(small, piece, tolerant), 0.002)


@pytest.mark.parametrize("tolerant", [False, True], ids=["strict", "tolerant"])
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_work_is_linear_in_hostile_output(prefix: str, tolerant: bool) -> None:
    """In large pieces as in tokens. A busy machine may disturb a measurement, hence three attempts."""
    for unit in HOSTILE.values():
        for characters, piece in ((12_000, 1 << 20), (1_500, 3)):
            assert any(scales(prefix, unit, characters, piece, tolerant) for _ in range(3)), (unit, piece)


@pytest.mark.parametrize("unit", ["<", " ", LIST, "[", "</parameter", "a"])
def test_megabytes_are_read_in_seconds(unit: str) -> None:
    text = render("write", {"text": unit * (2_000_000 // len(unit)), "lines": unit * (1_000_000 // len(unit))})
    started = time.process_time()
    _, calls, _ = read([text])
    assert len(calls) == 1
    assert time.process_time() - started < 5
