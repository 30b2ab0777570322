"""Request bodies, counted before anything looks at them (contract MEDIA-6, EXEC-21; decision 11).

A body is read whole, within bounds: its size, the bytes that all bodies of the server hold at once, the silence
between two pieces, and the time for all of them. Compressed bodies are bounded in both forms.
"""

from __future__ import annotations

import asyncio
import io
import threading
from dataclasses import dataclass

from ninfer_core.api.errors import ErrorCategory, RequestError, RequestTooLarge
from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send, header
from ninfer_core.serving.content_encoding import decompressed, known_encoding
from ninfer_core.serving.errors import HTTPProblem

HELD_BYTES = 2**30
"""Memory for the bodies of all requests together, from their first byte to the end of their answers: what a host has
to spare beside the model. Ordinary prompts of a full server take a hundredth of it."""


@dataclass(frozen=True, slots=True)
class BodyPace:
    """How slowly a body may come: no `silence_seconds` between two pieces, and after `grace_seconds` no less than
    `bytes_per_second` on the whole. 8 KiB a second is a modem; whoever is slower holds a connection for nothing."""

    silence_seconds: float = 30.0
    grace_seconds: float = 30.0
    bytes_per_second: float = 8 * 1024

    def patience(self, elapsed_seconds: float, received_bytes: int) -> float:
        """Seconds to wait for the next piece."""
        left = self.grace_seconds + received_bytes / self.bytes_per_second - elapsed_seconds
        return max(0.0, min(self.silence_seconds, left))


class BodyMemoryFull(RequestError):
    """The bodies of the requests that run hold all the memory that bodies may."""

    code = "server_overloaded"
    category = ErrorCategory.OVERLOADED

    def __init__(self, *, held_bytes: int, max_held_bytes: int) -> None:
        super().__init__(
            f"the bodies of other requests hold {held_bytes} of the {max_held_bytes} bytes that the server keeps for "
            "bodies; try again later, or send less"
        )


def held_bytes_bound(max_bytes: int) -> int:
    """For bodies of at most `max_bytes` each: one that is compressed is held in both forms for a while."""
    return max(HELD_BYTES, 2 * max_bytes)


class BodyLayer:
    """Gives the application its body as exactly one message; what follows it is the client going away."""

    def __init__(
        self, app: Application, *, max_bytes: int, max_held_bytes: int | None = None, pace: BodyPace | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._held = _Memory(held_bytes_bound(max_bytes) if max_held_bytes is None else max_held_bytes)
        self._pace = pace or BodyPace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        encoding = known_encoding((header(scope, b"content-encoding") or b"").decode("latin-1"))
        held = _Share(self._held)
        try:
            body = await self._read(scope, receive, held)
            if body is None:
                return
            if encoding != "identity":
                body = await self._plain(body, encoding, held)
            await self._app(_with_plain_body(scope, len(body)), _replay(body, receive), send)
        finally:
            held.release()

    async def _read(self, scope: Scope, receive: Receive, held: _Share) -> bytes | None:
        """The body, or None when the client went away while it sent it."""
        declared = header(scope, b"content-length") or b"0"
        if int(declared) > self._max_bytes:
            raise RequestTooLarge(limit_bytes=self._max_bytes)
        clock = asyncio.get_running_loop().time
        begin = clock()
        # Grows in place, and gives its bytes without a copy.
        body = io.BytesIO()
        while True:
            message = await self._receive(receive, clock() - begin, body.tell())
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            if body.tell() + len(piece) > self._max_bytes:
                raise RequestTooLarge(limit_bytes=self._max_bytes)
            held.add(len(piece))
            body.write(piece)
            if not message.get("more_body", False):
                return body.getvalue()

    async def _receive(self, receive: Receive, elapsed_seconds: float, received_bytes: int) -> Message:
        patience = self._pace.patience(elapsed_seconds, received_bytes)
        try:
            async with asyncio.timeout(patience):
                return await receive()
        except TimeoutError:
            raise HTTPProblem(
                408,
                f"{received_bytes} bytes of the body came in {elapsed_seconds + patience:.1f} s, and no more; send "
                f"without pauses of {self._pace.silence_seconds:g} s, and {self._pace.bytes_per_second:g} bytes a "
                "second or more",
                code="request_timeout",
            ) from None

    async def _plain(self, body: bytes, encoding: str, held: _Share) -> bytes:
        """In a thread, which a client that goes away does not stop: all it holds counts until it is through."""
        share = _Share(self._held)
        share.take_over(held)

        def over(work: asyncio.Future[bytes]) -> None:
            if work.cancelled() or work.exception() is not None or abandoned:
                share.release()

        abandoned = False
        work = asyncio.ensure_future(asyncio.to_thread(decompressed, body, encoding, self._max_bytes, share.add))
        work.add_done_callback(over)
        try:
            plain = await asyncio.shield(work)
        except asyncio.CancelledError:
            abandoned = True
            if work.done():
                share.release()
            raise
        held.take_over(share)
        held.give_back(len(body))
        return plain


class _Memory:
    """Counts bytes; several threads do."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            if self._bytes + count > self._max_bytes:
                raise BodyMemoryFull(held_bytes=self._bytes, max_held_bytes=self._max_bytes)
            self._bytes += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._bytes -= count


class _Share:
    """What one request holds of the server's bound."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._count = 0

    def add(self, count: int) -> None:
        """Before the bytes are kept."""
        self._memory.take(count)
        self._count += count

    def take_over(self, other: _Share) -> None:
        self._count += other._count
        other._count = 0

    def give_back(self, count: int) -> None:
        self._memory.give_back(count)
        self._count -= count

    def release(self) -> None:
        self.give_back(self._count)


def _with_plain_body(scope: Scope, length: int) -> Scope:
    described = (b"content-length", b"content-encoding", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in described]
    scope["headers"] = [*headers, (b"content-length", str(length).encode())]
    return scope


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[bytes] = [body]

    async def receive_after() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return message

    return receive_after
