"""Output text is the same under every cut, and nothing certain is held back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.frontend.channels import ChannelSplitter
from ninfer_models.qwen_hybrid.frontend.decoder import QwenOutputDecoder

from ninfer_core.api import Channel, ChannelText

FAMILY = "👨‍👩‍👧‍👦"


def decoded(chunks: Sequence[bytes], initial: Channel) -> list[ChannelText]:
    """Everything a decoder gives for an answer whose tokens are these bytes."""
    decoder = QwenOutputDecoder(chunks.__getitem__, initial)
    given = [text for place in range(len(chunks)) for text in decoder.push(place)]
    return given + list(decoder.finish())


def channels(texts: Iterable[ChannelText]) -> tuple[str, str]:
    joined: dict[str, str] = {"reasoning": "", "content": ""}
    for channel, text in texts:
        assert text, "an empty text says nothing"
        joined[channel] += text
    return joined["reasoning"], joined["content"]


def expected_channels(output: bytes, initial: Channel) -> tuple[str, str]:
    """The rules of the channels module, written as if the whole answer were there."""
    text = output.decode("utf-8", "replace")
    if initial == "content":
        return "", text
    if text.startswith("<think>"):
        text = text.removeprefix("<think>").lstrip("\n")
    reasoning, closed, content = text.partition("</think>")
    return (reasoning.rstrip("\n"), content.lstrip("\n")) if closed else (reasoning, "")


def cut(output: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place for place in places if 0 < place < len(output)}), len(output)]
    return [output[start:end] for start, end in pairwise(edges)]


CASES = [
    ("re-04", "reasoning", "<think>\nagain\n</think>\n\nOK", ("again", "OK")),
    ("re-05", "reasoning", "I keep going and going", ("I keep going and going", "")),
    (
        "re-06",
        "reasoning",
        "The format is `<tool_call>` then `<function=name>`.\n</think>\n\nReady.",
        ("The format is `<tool_call>` then `<function=name>`.", "Ready."),
    ),
    (
        "re-08",
        "content",
        "so the answer\n</think>\n\nThe answer is 4.",
        ("", "so the answer\n</think>\n\nThe answer is 4."),
    ),
    (
        "re-09",
        "reasoning",
        "ok\n</think>\n\nWrap it as <think>plan</think> in the prompt.",
        ("ok", "Wrap it as <think>plan</think> in the prompt."),
    ),
    (
        "re-11, strict",
        "reasoning",
        "I need data.\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n</think>\n",
        ("I need data.\n<tool_call>\n<function=f>\n</function>\n</tool_call>", ""),
    ),
    ("u8-02", "content", "a漢b c d", ("", "a漢b c d")),
    ("nothing", "reasoning", "", ("", "")),
    ("closed at once", "reasoning", "</think>\n\nHi", ("", "Hi")),
    ("empty thinking", "reasoning", "\n\n</think>\n\n", ("", "")),
    ("never closed, line feeds kept", "reasoning", "one\n\n", ("one\n\n", "")),
    ("cut inside the closing tag", "reasoning", "one\n</thi", ("one\n</thi", "")),
    ("cut inside a repeated opening tag", "reasoning", "<thin", ("<thin", "")),
    ("second close", "reasoning", "a</think>\nb</think>c", ("a", "b</think>c")),
    ("opening tag later on", "reasoning", "a <think> b</think>c", ("a <think> b", "c")),
    ("opened twice", "reasoning", "<think><think>a</think>b", ("<think>a", "b")),
    ("almost closed", "reasoning", "a\n</thin </think>\n \nb", ("a\n</thin ", " \nb")),
    ("tag after tag start", "reasoning", "a<</think></thinkb", ("a<", "</thinkb")),
    ("other white space is kept", "reasoning", " a \n \n</think>\r\n\n b ", (" a \n ", "\r\n\n b ")),
    ("family", "reasoning", f"{FAMILY}\n</think>\n\n{FAMILY}\n", (FAMILY, f"{FAMILY}\n")),
]


@pytest.mark.contract("RESP-56")
@pytest.mark.parametrize(("initial", "output", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_answer_is_the_same_in_every_cut(initial: Channel, output: str, wanted: tuple[str, str]) -> None:
    data = output.encode()
    assert expected_channels(data, initial) == wanted
    draw = random.Random(7)
    cuts = [[], list(range(len(data)))] + [
        draw.sample(range(len(data) + 1), draw.randrange(min(8, len(data) + 1))) for _ in range(50)
    ]
    for places in cuts:
        assert channels(decoded(cut(data, places), initial)) == wanted


pieces = st.sampled_from(
    [
        b"<think>",
        b"</think>",
        b"<",
        b"</",
        b"</thin",
        b"think>",
        b"\n",
        b"\n\n",
        b" ",
        b"word",
        "漢".encode(),
        b"\r\n",
        "👩‍🚀".encode(),
        "👍🏽".encode(),
        b"\xff",
        b"\xe6\xbc",
        b"\xf0\x9f",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xa2",
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(pieces, max_size=12).map(b"".join), st.sets(st.integers(0, 60)), st.sampled_from(["reasoning", "content"])
)
def test_any_bytes_in_any_cut(output: bytes, places: set[int], initial: Channel) -> None:
    assert channels(decoded(cut(output, places), initial)) == expected_channels(output, initial)


def test_whole_characters_are_given_at_once_and_broken_ones_at_the_end() -> None:
    chunks = [b"A", b"\xff", b"B", b" C\xe6", b"\xbc", b"\xa2!", b"\xf0\x9f"]
    decoder = QwenOutputDecoder(chunks.__getitem__, "content")
    assert [[text for _, text in decoder.push(place)] for place in range(len(chunks))] == [
        ["A"],
        ["\ufffd"],
        ["B"],
        [" C"],
        [],
        ["漢!"],
        [],
    ]
    assert decoder.finish() == (ChannelText("content", "\ufffd"),)


def test_only_what_may_be_framing_is_held() -> None:
    splitter = ChannelSplitter("reasoning")
    steps = ["a", "\n", "<", "b", "</th", "\n", "\n</think", ">\n", "\n", "x", "\n", "</think>"]
    assert [[text for _, text in splitter.push(step)] for step in steps] == [
        ["a"],
        [],
        [],
        ["\n<b"],
        [],
        ["</th"],
        [],
        [],
        [],
        ["x"],
        ["\n"],
        ["</think>"],
    ]
    assert splitter.finish() == ()


def test_a_long_run_of_line_feeds_costs_a_counter() -> None:
    splitter = ChannelSplitter("reasoning")
    splitter.push("a")
    for _ in range(100_000):
        assert splitter.push("\n") == ()
    assert splitter._held == ""
    assert splitter.finish() == (ChannelText("reasoning", "\n" * 100_000),)


@pytest.mark.contract("RESP-56")
def test_the_token_that_closes_thinking_counts_as_reasoning() -> None:
    chunks = [b"why", b"\n</th", b"ink>\n\nso", b" it"]
    decoder = QwenOutputDecoder(chunks.__getitem__, "reasoning")
    counted = []
    for place in range(len(chunks)):
        counted.append(decoder.channel)
        decoder.push(place)
    assert counted == ["reasoning", "reasoning", "reasoning", "content"]
