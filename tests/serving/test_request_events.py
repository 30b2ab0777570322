from __future__ import annotations

import asyncio

import pytest

from ninfer_core.api.errors import (
    ClientTooSlow,
    ContextLengthExceeded,
    ErrorCategory,
    RequestError,
    RequestQueueTimeout,
    ServerOverloaded,
    ThinkingBudgetCapacityInsufficient,
)
from ninfer_core.api.service import (
    Admitted,
    Finished,
    GenerationEvent,
    LiveTimings,
    Progress,
    TextDelta,
    Timings,
    Usage,
)
from ninfer_core.engine.messages import Event, Failed, failed
from ninfer_core.engine.wire import encode_frame, engine_decoder
from ninfer_core.serving.request_events import EventTable, RequestEvents, reported_error

ADMITTED = Admitted(prompt_tokens=3, cached_tokens=0)
FINISHED = Finished(
    reason="stop_token",
    stop_string=None,
    usage=Usage(prompt_tokens=3, cached_tokens=0, output_tokens=1, reasoning_tokens=0),
    timings=Timings(queue_seconds=0, prompt_seconds=0, generation_seconds=0),
)


async def read_all(events: RequestEvents) -> list[GenerationEvent]:
    read = []
    while (event := await events.next()) is not None:
        read.append(event)
    return read


@pytest.mark.contract("EXEC-6", "EXEC-21")
def test_text_that_nobody_reads_is_kept_as_one_piece_for_each_run_of_a_channel() -> None:
    async def run() -> None:
        ended: list[bool] = []
        events = RequestEvents(lambda: ended.append(True), lambda: None)
        events.push(ADMITTED)
        for _ in range(1000):
            events.push(TextDelta(channel="reasoning", text="a"))
        for _ in range(1000):
            events.push(TextDelta(channel="content", text="b"))
        assert len(events._pending) == 3
        events.push(FINISHED)
        assert ended == [True]
        assert await read_all(events) == [
            ADMITTED,
            TextDelta(channel="reasoning", text="a" * 1000),
            TextDelta(channel="content", text="b" * 1000),
            FINISHED,
        ]

    asyncio.run(run())


@pytest.mark.contract("OBS-10", "OBS-14")
def test_progress_that_nobody_reads_is_the_latest_and_text_counts_as_of_its_last_token() -> None:
    def live(tokens: int) -> LiveTimings:
        return LiveTimings(output_tokens=tokens, prompt_seconds=1, generation_seconds=tokens)

    async def run() -> None:
        events = RequestEvents(lambda: None, lambda: None)
        events.push(ADMITTED)
        for processed in range(1, 1000):
            events.push(Progress(processed_tokens=processed, seconds=processed))
        for tokens in range(1, 1000):
            events.push(TextDelta(channel="content", text="b", live=live(tokens)))
        events.push(FINISHED)
        assert await read_all(events) == [
            ADMITTED,
            Progress(processed_tokens=999, seconds=999),
            TextDelta(channel="content", text="b" * 999, live=live(999)),
            FINISHED,
        ]

    asyncio.run(run())


def test_a_reader_that_waits_is_woken() -> None:
    async def run() -> None:
        events = RequestEvents(lambda: None, lambda: None)
        reading = asyncio.create_task(read_all(events))
        for event in (ADMITTED, TextDelta(channel="content", text="x"), FINISHED):
            await asyncio.sleep(0)
            events.push(event)
        assert len(await reading) == 3

    asyncio.run(run())


def test_what_came_before_a_failure_is_read_first() -> None:
    async def run() -> None:
        events = RequestEvents(lambda: None, lambda: None)
        events.push(ADMITTED)
        events.fail(RequestError("gone"))
        events.push(FINISHED)
        assert await events.next() == ADMITTED
        for _ in range(2):
            with pytest.raises(RequestError, match="gone"):
                await events.next()

    asyncio.run(run())


def test_messages_are_told_apart_and_late_ones_ignored() -> None:
    async def run() -> None:
        table = EventTable()
        first, second = (table.open(number, lambda: None, lambda: None) for number in (1, 2))
        table.receive(Event(request_id=1, event=ADMITTED))
        table.receive(failed(2, RequestQueueTimeout(waited_ms=7)))
        table.receive(Event(request_id=2, event=ADMITTED))
        table.receive(Event(request_id=9, event=ADMITTED))
        assert await first.next() == ADMITTED
        with pytest.raises(RequestError, match="waited"):
            await second.next()
        table.fail_all("the engine is gone")
        with pytest.raises(RequestError, match="the engine is gone"):
            await first.next()

    asyncio.run(run())


class RequestOfAFamily(RequestError):
    code = "too_many_pictures"
    category = ErrorCategory.TOO_LARGE


@pytest.mark.parametrize(
    "error",
    [
        ServerOverloaded(capacity=3),
        RequestQueueTimeout(waited_ms=7),
        ContextLengthExceeded(prompt_tokens=9, max_context=8),
        ThinkingBudgetCapacityInsufficient(budget=3, control_tokens=2, limit=4),
        RequestError("m", code="never_heard_of", param="messages.0"),
        RequestOfAFamily("m"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_is_the_same_on_both_sides_of_the_socket(error: RequestError) -> None:
    frame = encode_frame(failed(1, error))
    message = engine_decoder()(frame[4:])
    assert isinstance(message, Failed)
    reported = reported_error(message)
    assert (reported.code, reported.category, reported.message, reported.param) == (
        *(error.code, error.category, error.message),
        error.param,
    )


@pytest.mark.contract("EXEC-21")
def test_a_reader_that_leaves_too_much_is_given_up_and_the_rest_dropped() -> None:
    async def run() -> None:
        happened: list[str] = []
        events = RequestEvents(lambda: happened.append("end"), lambda: happened.append("overflow"), 10)
        events.push(TextDelta(channel="content", text="x" * 10))
        assert await events.next() == TextDelta(channel="content", text="x" * 10)
        for _ in range(20):
            events.push(TextDelta(channel="content", text="y"))
        assert happened == ["overflow"] and not events.ended, "the engine has not let go of it yet"
        assert not events._pending
        events.push(FINISHED)
        assert happened == ["overflow", "end"]
        with pytest.raises(ClientTooSlow) as raised:
            await events.next()
        assert raised.value.category is ErrorCategory.CANCELLED
        assert "11 characters" in raised.value.message

    asyncio.run(run())
