"""Server-sent events: framing, the keep-alive comment, and an answer that starts as late as it may.

The status line is sent with the first event or the first keep-alive comment, whichever comes first. Until then an
error of the generation (a pending deadline, say) is still an ordinary HTTP error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from litestar.types import Receive, Scope, Send

from ninfer_core.api import GenerationFailed, NinferError
from ninfer_protocols.wire.responses import Headers

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx and its kind buffer answers unless told not to, which would hold every token back.
    (b"x-accel-buffering", b"no"),
)


_LINE_ENDS_OF_CLIENTS = tuple(
    (character.encode(), f"\\u{ord(character):04x}".encode()) for character in "\x85\u2028\u2029"
)
"""No line ends of SSE, and yet clients split lines there that take Unicode's word for it. As escapes they are safe."""


def data_frame(payload: object) -> bytes:
    """One unnamed event. JSON never contains a raw newline, so one `data:` line is enough."""
    encoded = msgspec.json.encode(payload)
    for character, escape in _LINE_ENDS_OF_CLIENTS:
        encoded = encoded.replace(character, escape)
    return b"data: " + encoded + b"\n\n"


def event_frame(name: str, payload: object) -> bytes:
    """One event that is called `name`."""
    return b"event: " + name.encode() + b"\n" + data_frame(payload)


class _Frames:
    """The frames of one answer. `release` gives back what they are made from, started or not."""

    def __init__(self, frames: AsyncGenerator[bytes, None], release: Callable[[], Awaitable[None]]) -> None:
        self.rest = frames
        self._release = release
        self._first = asyncio.ensure_future(anext(frames, b""))

    async def begin(self, silence_seconds: float) -> bool:
        """Whether the first frame, or the end, came within so long. Raises what the frames raise before that."""
        await asyncio.wait((self._first,), timeout=silence_seconds)
        if self._first.done():
            self._first.result()
        return self._first.done()

    async def first(self) -> bytes:
        """Empty where there is none. `rest` has the others."""
        return await self._first

    async def aclose(self) -> None:
        self._first.cancel()
        await asyncio.wait((self._first,))
        try:
            await self.rest.aclose()
        finally:
            await self._release()


class _Pump:
    """Sends one frame at a time, and breaks silences with `keep_alive`."""

    def __init__(self, send: Send, keep_alive: bytes, keep_alive_seconds: float) -> None:
        self._send = send
        self._keep_alive = keep_alive
        self._keep_alive_seconds = keep_alive_seconds
        self._clock = asyncio.get_running_loop().time
        self._one_at_a_time = asyncio.Lock()
        self._sent_at = self._clock()

    async def send(self, frame: bytes, *, more: bool = True) -> None:
        async with self._one_at_a_time:
            await self._send({"type": "http.response.body", "body": frame, "more_body": more})
        self._sent_at = self._clock()

    async def break_silences(self) -> None:
        """One timer for the whole answer: it looks at the clock once in a silence, not once in a frame."""
        while True:
            left = self._sent_at + self._keep_alive_seconds - self._clock()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self.send(self._keep_alive)


class EventStream:
    """An ASGI answer over frames that have begun, or have been silent for the first time. Closes them however it
    ends."""

    def __init__(
        self,
        frames: _Frames,
        *,
        silent: bool,
        keep_alive: bytes,
        keep_alive_seconds: float,
        error_frame: Callable[[NinferError], bytes],
        headers: Headers,
    ) -> None:
        self._frames = frames
        self._silent = silent
        self._keep_alive = keep_alive
        self._keep_alive_seconds = keep_alive_seconds
        self._error_frame = error_frame
        self._headers = [*_HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = _Pump(send, self._keep_alive, self._keep_alive_seconds)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            if self._silent:
                await pump.send(self._keep_alive)
            async with _beside(pump.break_silences()):
                await self._send_all(pump)
                await pump.send(b"", more=False)
        finally:
            await self._frames.aclose()

    async def _send_all(self, pump: _Pump) -> None:
        try:
            if first := await self._frames.first():
                await pump.send(first)
                async for frame in self._frames.rest:
                    await pump.send(frame)
        except NinferError as error:
            await pump.send(self._error_frame(error))
        except Exception:
            # A bug of ours: the client learns that its answer is not complete, the server's own edge logs it.
            unexpected = GenerationFailed("the server failed while it wrote this answer", code="internal_error")
            await pump.send(self._error_frame(unexpected))
            raise


async def open_event_stream(
    frames: AsyncGenerator[bytes, None],
    *,
    release: Callable[[], Awaitable[None]],
    keep_alive_seconds: float,
    error_frame: Callable[[NinferError], bytes],
    headers: Headers = (),
    keep_alive: bytes = KEEP_ALIVE,
) -> EventStream:
    """Wait for the first frame or the first silence, then give the answer to send. `headers` are added to its own.

    Raises what the frames raise before that, after everything is released.
    """
    begun = _Frames(frames, release)
    try:
        silent = not await begun.begin(keep_alive_seconds)
    except BaseException:
        await begun.aclose()
        raise
    return EventStream(
        begun,
        silent=silent,
        keep_alive=keep_alive,
        keep_alive_seconds=keep_alive_seconds,
        error_frame=error_frame,
        headers=headers,
    )


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """`work` runs as long as the block does. Should it end by itself, because a client takes nothing more, the block
    is cancelled."""
    owner = asyncio.current_task()
    assert owner is not None, "answers are sent by a task"

    def end_owner(task: asyncio.Task[None]) -> None:
        owner.cancel()

    beside = asyncio.create_task(work)
    beside.add_done_callback(end_owner)
    try:
        yield
    finally:
        beside.remove_done_callback(end_owner)
        beside.cancel()
        await asyncio.wait((beside,))
