"""The pump of server-sent events: what it costs for a frame, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from ninfer_protocols.wire.sse import KEEP_ALIVE, open_event_stream

from ninfer_core.api import GenerationFailed, NinferError

Message = Any


class Client:
    """Takes what is sent, `seconds` for each message, and lets the keep-alive frame break off where it is told to."""

    def __init__(self, seconds: float = 0.0, *, takes_keep_alive: bool = True) -> None:
        self.frames: list[bytes] = []
        self.overlaps = 0
        self.ended = False
        self._seconds = seconds
        self._takes_keep_alive = takes_keep_alive
        self._busy = False

    async def take(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return
        if message["body"] == KEEP_ALIVE and not self._takes_keep_alive:
            # What the layer around the application raises for a client that takes nothing.
            raise asyncio.CancelledError
        self.overlaps += self._busy
        self._busy = True
        if self._seconds:
            await asyncio.sleep(self._seconds)
        self._busy = False
        self.frames.append(message["body"])
        self.ended = not message["more_body"]


class Source:
    """Frames with pauses between them; knows whether it was released."""

    def __init__(self, count: int, pause_seconds: float = 0.0, failure: Exception | None = None) -> None:
        self.released = 0
        self._count = count
        self._pause_seconds = pause_seconds
        self._failure = failure

    async def frames(self) -> AsyncGenerator[bytes, None]:
        for index in range(self._count):
            await asyncio.sleep(self._pause_seconds)
            yield f"data: {index}\n\n".encode()
        if self._failure is not None:
            raise self._failure

    async def release(self) -> None:
        self.released += 1


async def stream(source: Source, client: Client, keep_alive_seconds: float = 60.0) -> None:
    answer = await open_event_stream(
        source.frames(),
        release=source.release,
        keep_alive_seconds=keep_alive_seconds,
        error_frame=lambda error: f"error {error.code}".encode(),
    )
    scope: Any = {}
    receive: Any = None
    await answer(scope, receive, client.take)


def test_frames_are_pumped_by_a_fixed_number_of_tasks_and_timers() -> None:
    """Of the first frame and of the keep-alive: none for each frame."""
    tasks = 0

    def counted(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        nonlocal tasks
        tasks += 1
        return asyncio.Task(work, loop=loop, **options)

    async def run() -> None:
        asyncio.get_running_loop().set_task_factory(counted)
        source, client = Source(500), Client()
        await stream(source, client)
        assert len(client.frames) == 501 and client.ended and source.released == 1

    asyncio.run(run())
    # Besides the two, those that end the loop.
    assert tasks < 10


@pytest.mark.contract("GEN-16")
@pytest.mark.parametrize("silence", [1, 4])
def test_silence_is_broken_before_and_between_frames(silence: int) -> None:
    client = Client()
    asyncio.run(stream(Source(3, pause_seconds=0.05 * silence + 0.03), client, keep_alive_seconds=0.05))
    assert client.frames[0] == KEEP_ALIVE
    assert client.frames.count(KEEP_ALIVE) >= 3
    assert [frame for frame in client.frames if frame != KEEP_ALIVE] == [
        b"data: 0\n\n",
        b"data: 1\n\n",
        b"data: 2\n\n",
        b"",
    ]


@pytest.mark.contract("GEN-16")
def test_quick_frames_have_nothing_between_them() -> None:
    client = Client()
    asyncio.run(stream(Source(50), client, keep_alive_seconds=30))
    assert KEEP_ALIVE not in client.frames


def test_a_slow_client_gets_one_message_at_a_time() -> None:
    client = Client(seconds=0.03)
    asyncio.run(stream(Source(8, pause_seconds=0.005), client, keep_alive_seconds=0.01))
    assert client.overlaps == 0 and client.ended


def test_a_client_that_takes_no_keep_alive_ends_the_answer() -> None:
    source = Source(2, pause_seconds=30.0)

    async def run() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(stream(source, Client(takes_keep_alive=False), keep_alive_seconds=0.02))

    asyncio.run(run())
    assert source.released == 1


@pytest.mark.parametrize("count", [0, 2])
def test_an_error_after_silence_is_a_frame(count: int) -> None:
    client, source = Client(), Source(count, failure=GenerationFailed("broken"))

    async def run(make: Callable[[], AsyncGenerator[bytes, None]]) -> None:
        async def late() -> AsyncGenerator[bytes, None]:
            await asyncio.sleep(0.05)
            async for frame in make():
                yield frame

        answer = await open_event_stream(
            late(),
            release=source.release,
            keep_alive_seconds=0.01,
            error_frame=lambda error: f"error {error.code}".encode(),
        )
        scope: Any = {}
        receive: Any = None
        await answer(scope, receive, client.take)

    asyncio.run(run(source.frames))
    assert client.frames[-2:] == [b"error generation_failed", b""] and source.released == 1


def test_an_error_before_anything_is_raised() -> None:
    source = Source(0, failure=GenerationFailed("broken"))
    with pytest.raises(NinferError, match="broken"):
        asyncio.run(stream(source, Client()))
    assert source.released == 1
