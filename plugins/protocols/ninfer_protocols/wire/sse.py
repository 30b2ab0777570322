"""Server-sent events: framing, the keep-alive comment, and an answer that starts as late as it may.

The status line is sent with the first event or the first keep-alive comment, whichever comes first. Until then an
error of the generation (a pending deadline, say) is still an ordinary HTTP error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

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


def data_frame(payload: object) -> bytes:
    """One unnamed event. JSON never contains a raw newline, so one `data:` line is enough."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def event_frame(name: str, payload: object) -> bytes:
    """One event that is called `name`."""
    return b"event: " + name.encode() + b"\n" + data_frame(payload)


class FrameReader:
    """Reads frames with a bound on silence, which `keep_alive` breaks. `release` gives back what the frames are made
    from, started or not."""

    def __init__(
        self, frames: AsyncGenerator[bytes, None], release: Callable[[], Awaitable[None]], keep_alive: bytes
    ) -> None:
        self._frames = frames
        self._release = release
        self._keep_alive = keep_alive
        self._pending: asyncio.Task[bytes] | None = None

    async def read(self, silence_seconds: float) -> bytes:
        """The next frame, the keep-alive frame after that much silence, or nothing (b"") at the end."""
        if self._pending is None:
            self._pending = asyncio.ensure_future(_next(self._frames))
        done, _ = await asyncio.wait((self._pending,), timeout=silence_seconds)
        if not done:
            return self._keep_alive
        finished, self._pending = self._pending, None
        return finished.result()

    async def aclose(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.wait((self._pending,))
        try:
            await self._frames.aclose()
        finally:
            await self._release()


class EventStream:
    """An ASGI answer over a reader whose first frame is known. Closes the reader however it ends."""

    def __init__(
        self,
        reader: FrameReader,
        first: bytes,
        keep_alive_seconds: float,
        error_frame: Callable[[NinferError], bytes],
        headers: Headers = (),
    ) -> None:
        self._headers = [*_HEADERS, *headers]
        self._reader = reader
        self._first = first
        self._keep_alive_seconds = keep_alive_seconds
        self._error_frame = error_frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await _send_frame(send, self._first)
            await self._send_rest(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._reader.aclose()

    async def _send_rest(self, send: Send) -> None:
        try:
            while frame := await self._reader.read(self._keep_alive_seconds):
                await _send_frame(send, frame)
        except NinferError as error:
            await _send_frame(send, self._error_frame(error))
        except Exception:
            # A bug of ours: the client learns that its answer is not complete, the server's own edge logs it.
            unexpected = GenerationFailed("the server failed while it wrote this answer", code="internal_error")
            await _send_frame(send, self._error_frame(unexpected))
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
    reader = FrameReader(frames, release, keep_alive)
    try:
        first = await reader.read(keep_alive_seconds)
    except BaseException:
        await reader.aclose()
        raise
    return EventStream(reader, first, keep_alive_seconds, error_frame, headers)


async def _next(frames: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(frames, b"")


async def _send_frame(send: Send, frame: bytes) -> None:
    await send({"type": "http.response.body", "body": frame, "more_body": True})
