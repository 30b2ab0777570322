from __future__ import annotations

import asyncio
import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_core.api.errors import PluginBroken, RequestError, RequestQueueTimeout
from ninfer_core.api.service import Finished, Speculation, TextDelta, Timings, Usage
from ninfer_core.engine.messages import (
    Cancel,
    EngineMessage,
    Event,
    FrontMessage,
    PhaseDone,
    Shutdown,
    Submit,
    failed,
    fatal,
    pack_token_ids,
)
from ninfer_core.engine.wire import (
    MAX_FRAME_BYTES,
    AsyncReader,
    BlockingReader,
    EngineStart,
    FrameInvalid,
    encode_frame,
    engine_decoder,
    front_decoder,
    start_decoder,
)
from ninfer_core.testing.histories import sampling
from ninfer_core.testing.simulated_plan import simulated_plan

SUBMIT = Submit(
    request_id=2**63 - 1,
    prompt=pack_token_ids(tuple(range(3000))),
    initial_channel="reasoning",
    sampling=sampling(2**64 - 1),
    max_output_tokens=5,
    stop=("\x00", "漢"),
    stop_channels=("reasoning", "content"),
    received_monotonic=1.25,
    deadline_monotonic=2.5,
)
FRONT: list[FrontMessage] = [SUBMIT, Cancel(request_id=1), Shutdown(drain=True)]
ENGINE: list[EngineMessage] = [
    PhaseDone(name="weights", seconds=0.5),
    Event(request_id=3, event=TextDelta(channel="content", text="\ufffd🚀")),
    Event(
        request_id=3,
        event=Finished(
            reason="stop_string",
            stop_string="x",
            usage=Usage(prompt_tokens=1, cached_tokens=0, output_tokens=2, reasoning_tokens=0),
            timings=Timings(queue_seconds=0.0, prompt_seconds=0.5, generation_seconds=1.0),
            speculation=Speculation(
                rounds=3, drafted_tokens=7, accepted_tokens=4, fallback_steps=1, accepted_per_position=(2, 1, 1)
            ),
        ),
    ),
    failed(4, RequestQueueTimeout(waited_ms=7)),
]


class Trickle(io.RawIOBase):
    """Gives out a few bytes at a time, as a socket may."""

    def __init__(self, data: bytes) -> None:
        self._source = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self._source.read(min(len(buffer), 3))
        buffer[: len(piece)] = piece
        return len(piece)


def read_blocking(data: bytes) -> list[FrontMessage]:
    reader = BlockingReader(io.BufferedReader(Trickle(data)), front_decoder())
    return list(iter(reader.read, None))


def read_async(data: bytes) -> list[EngineMessage]:
    async def read() -> list[EngineMessage]:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        reader = AsyncReader(stream, engine_decoder())
        messages: list[EngineMessage] = []
        while (message := await reader.read()) is not None:
            messages.append(message)
        return messages

    return asyncio.run(read())


def test_messages_come_out_as_they_went_in() -> None:
    assert read_blocking(b"".join(map(encode_frame, FRONT))) == FRONT
    assert read_async(b"".join(map(encode_frame, ENGINE))) == ENGINE


def test_the_start_frame_keeps_the_plan_and_its_digest() -> None:
    start = EngineStart(plan=simulated_plan(), source=None)
    stream = io.BytesIO(encode_frame(start) + encode_frame(Shutdown(drain=False)))
    received = BlockingReader(stream, start_decoder()).read()
    assert received == start
    assert received is not None and received.plan.digest == start.plan.digest
    assert BlockingReader(stream, front_decoder()).read() == Shutdown(drain=False)


@given(st.integers(1, len(encode_frame(SUBMIT)) - 1))
def test_a_frame_cut_short_is_an_error_not_an_end(cut: int) -> None:
    with pytest.raises(FrameInvalid, match="closed after"):
        read_blocking(encode_frame(SUBMIT)[:cut])


@given(st.integers(1, len(encode_frame(ENGINE[1])) - 1))
def test_the_async_reader_knows_a_cut_frame_too(cut: int) -> None:
    with pytest.raises(FrameInvalid, match="closed after"):
        read_async(encode_frame(ENGINE[1])[:cut])


def test_a_length_over_the_bound_is_refused_before_reading() -> None:
    with pytest.raises(FrameInvalid, match="announces"):
        read_blocking((MAX_FRAME_BYTES + 1).to_bytes(4, "little"))


def test_a_message_over_the_bound_is_not_sent() -> None:
    with pytest.raises(FrameInvalid, match="over the frame limit"):
        encode_frame(msgspec.structs.replace(failed(1, RequestError("x")), message="x" * MAX_FRAME_BYTES))


@given(st.binary(min_size=1, max_size=60))
def test_bytes_that_are_no_message_are_a_typed_error(body: bytes) -> None:
    with pytest.raises(FrameInvalid, match="no message"):
        read_blocking(len(body).to_bytes(4, "little") + body)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            PluginBroken("spec plugin 'x' failed in its drafter's propose: no"),
            "plugin_broken",
            "spec plugin 'x' failed",
        ),
        (RuntimeError("the device is gone \udc80"), "engine_failed", "RuntimeError: the device is gone \\udc80"),
    ],
)
def test_the_end_of_an_engine_is_said_once_and_can_be_sent(error: Exception, code: str, text: str) -> None:
    """A typed error has a code, which no name of a class need repeat."""
    message = fatal(error, "engine_failed")
    assert message.code == code and message.message.startswith(text)
    assert message.message.encode()
