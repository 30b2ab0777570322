"""Scripted answers as generated text, and who gets which."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ninfer_models.qwen_hybrid.frontend import build_frontend

from ninfer_core.api.errors import RequestError
from ninfer_core.api.request import Channel, GenerationRequest, Message, TextPart
from ninfer_core.engine.scripted.answers import AnswerChooser, AnswerWriter, answer_of_seed, answer_seed
from ninfer_core.engine.scripted.script import Script, ScriptedAnswer
from ninfer_core.testing.tiny import tiny_header


@pytest.fixture(scope="module")
def writer() -> AnswerWriter:
    return AnswerWriter(build_frontend(tiny_header()))


CALL = {"name": "f", "arguments": {"b": "x", "a": 1}}
CALL_TEXT = "\n".join(
    [
        "<tool_call>",
        "<function=f>",
        "<parameter=b>",
        "x",
        "</parameter>",
        "<parameter=a>",
        "1",
        "</parameter>",
        "</function>",
        "</tool_call>",
    ]
)


@pytest.mark.parametrize(
    ("fields", "channel", "text"),
    [
        ({"content": " Hi \n"}, "content", " Hi \n"),
        ({"content": "Hi"}, "reasoning", "\n</think>\n\nHi"),
        ({"reasoning": " hm ", "content": "Hi"}, "reasoning", " hm \n</think>\n\nHi"),
        ({"reasoning": "hm", "content": "Hi"}, "content", "Hi"),
        ({"content": "Hi", "tool_calls": [CALL]}, "content", "Hi\n\n" + CALL_TEXT),
        ({"tool_calls": [CALL, CALL]}, "content", CALL_TEXT + "\n" + CALL_TEXT),
        ({"reasoning": "hm", "tool_calls": [CALL]}, "reasoning", "hm\n</think>\n\n" + CALL_TEXT),
        ({"raw": "<think>"}, "reasoning", "<think>"),
        ({}, "content", ""),
    ],
)
def test_the_template_writes_the_answer(
    writer: AnswerWriter, fields: dict[str, Any], channel: Channel, text: str
) -> None:
    assert writer.text(msgspec.convert(fields, ScriptedAnswer), channel) == text


def ask(*messages: str) -> GenerationRequest:
    turns = [Message(role="user", content=(TextPart(text),)) for text in messages]
    turns.append(Message(role="tool", content=(TextPart("weather"),)))
    return GenerationRequest(messages=tuple(turns))


def test_texts_go_first_and_turns_are_taken() -> None:
    chooser = AnswerChooser(
        Script(answers=tuple(ScriptedAnswer(match=match) for match in (None, "weather", None, "weather", "time")))
    )
    plain, weather = ask("weather", "hello"), ask("hello", "the weather")
    assert [chooser.choose(plain) for _ in range(3)] == [0, 2, 0]
    assert [chooser.choose(weather) for _ in range(3)] == [1, 3, 1]
    assert chooser.choose(ask("what time")) == 4
    assert chooser.choose(plain) == 2


def test_nothing_to_say_is_the_clients_error() -> None:
    with pytest.raises(RequestError) as raised:
        AnswerChooser(Script(answers=(ScriptedAnswer(match="x"),))).choose(ask("hello"))
    assert raised.value.code == "no_scripted_answer"


def test_seeds_name_answers() -> None:
    channels: tuple[Channel, ...] = ("reasoning", "content")
    pairs = [(number, channel) for number in (0, 1, 1000) for channel in channels]
    assert [answer_of_seed(answer_seed(*pair)) for pair in pairs] == pairs
