"""Text of an answer through the family's parser, as events."""

from __future__ import annotations

import msgspec
import pytest
from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat

from ninfer_core.api.request import Channel, ToolDefinition
from ninfer_core.api.service import (
    Admitted,
    Finished,
    FinishReason,
    GenerationEvent,
    LiveTimings,
    TextDelta,
    Timings,
    ToolCallDelta,
    Usage,
)
from ninfer_core.serving.output_stage import OutputStage

WEATHER = ToolDefinition(
    name="weather",
    parameters={"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    definition={},
)
CALL = (
    "<tool_call>\n<function=weather>\n<parameter=days>\n3\n</parameter>\n<parameter=city>\nOslo\n</parameter>\n"
    "</function>\n</tool_call>"
)


def finished(reason: FinishReason = "stop_token") -> Finished:
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=1, reasoning_tokens=0)
    return Finished(
        reason=reason,
        stop_string=None,
        usage=usage,
        timings=Timings(queue_seconds=0, prompt_seconds=0, generation_seconds=0),
    )


def through(
    *texts: tuple[Channel, str], tools: tuple[ToolDefinition, ...] = (WEATHER,), tolerant: bool = False
) -> list[GenerationEvent]:
    stage = OutputStage(QwenOutputFormat().parser(tools, tolerant=tolerant))
    events: list[GenerationEvent] = [TextDelta(channel=channel, text=text) for channel, text in texts]
    return [
        seen
        for event in [Admitted(prompt_tokens=1, cached_tokens=0), *events, finished()]
        for seen in stage.push(event)
    ]


def text_of(events: list[GenerationEvent], channel: Channel = "content") -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.channel == channel)


@pytest.mark.contract("TOOL-14", "CHAT-41")
def test_calls_come_whole_in_order_and_before_the_end() -> None:
    events = through(("reasoning", "so"), ("content", "Look: "), *(("content", character) for character in CALL * 2))
    assert isinstance(events[0], Admitted)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["so", "Look:"]
    first, second, last = events[-3:]
    assert isinstance(first, ToolCallDelta) and isinstance(second, ToolCallDelta) and isinstance(last, Finished)
    assert (first.index, second.index, first.name) == (0, 1, "weather")
    assert list(first.arguments.items()) == [("days", 3), ("city", "Oslo")]
    assert last.tool_calls is not None and last.tool_calls.structured_calls == 2


@pytest.mark.contract("TOOL-13")
def test_what_is_no_call_after_all_is_text_before_the_end() -> None:
    text = CALL + " and so on"
    events = through(("content", text))
    assert text_of(events) == text
    last = events[-1]
    assert isinstance(last, Finished) and last.tool_calls is not None
    assert last.tool_calls.fallback_reason == "trailing_content"


@pytest.mark.contract("TOOL-16", "TOOL-11")
def test_without_an_effective_tool_everything_is_text() -> None:
    assert text_of(through(("content", CALL), tools=())) == CALL


@pytest.mark.contract("TOOL-15")
def test_the_mode_reaches_the_parser() -> None:
    text = CALL + " and so on"
    assert any(isinstance(event, ToolCallDelta) for event in through(("content", text), tolerant=True))


@pytest.mark.contract("OBS-14")
def test_text_that_was_held_back_counts_as_of_what_let_it_go() -> None:
    def counted(*texts: str) -> list[tuple[str, int]]:
        stage = OutputStage(QwenOutputFormat().parser((WEATHER,), tolerant=False))
        last = finished()
        usage = msgspec.structs.replace(last.usage, output_tokens=99)
        events: list[GenerationEvent] = [
            TextDelta(
                channel="content",
                text=text,
                live=LiveTimings(output_tokens=tokens, prompt_seconds=1, generation_seconds=2),
            )
            for tokens, text in enumerate(texts, start=1)
        ]
        seen = [seen for event in [*events, msgspec.structs.replace(last, usage=usage)] for seen in stage.push(event)]
        return [(event.text, event.live.output_tokens) for event in seen if isinstance(event, TextDelta) and event.live]

    assert counted("a", " <tool", "_call", "> b", ".") == [("a", 1), (" <tool_call> b", 4), (".", 5)]
    assert counted("a", " <tool") == [("a", 1), (" <tool", 99)]
