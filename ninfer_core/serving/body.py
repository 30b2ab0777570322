"""Request bodies, counted before anything looks at them (contract MEDIA-6, EXEC-21; decision 11).

A body is read whole, within three bounds: its size, the bytes that all bodies of the server hold at once, and the
silence between two pieces. Compressed bodies are bounded in both forms.
"""

from __future__ import annotations

import asyncio
import zlib

from ninfer_core.api.errors import RequestTooLarge, ServerOverloaded
from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send, header
from ninfer_core.serving.errors import HTTPProblem

SILENCE_SECONDS = 30.0
"""Longest wait for the next piece of a body."""

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""zlib's way to say: a gzip header and trailer."""


class BodyLayer:
    """Gives the application its body as exactly one message; what follows it is the client going away.

    `capacity` is the number of requests that the server holds at most: together their bodies may be that many
    times `max_bytes`.
    """

    def __init__(
        self, app: Application, *, max_bytes: int, capacity: int, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._capacity = capacity
        self._silence_seconds = silence_seconds
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        encoding = _content_encoding(scope)
        held = _HeldBytes(self)
        try:
            body = await self._read(scope, receive, held)
            if body is None:
                return
            if encoding == "gzip":
                body = await asyncio.to_thread(_gunzip, body, self._max_bytes)
                held.add(len(body))
            await self._app(_with_plain_body(scope, len(body)), _replay(body, receive), send)
        finally:
            held.release()

    async def _read(self, scope: Scope, receive: Receive, held: _HeldBytes) -> bytes | None:
        """The body, or None when the client went away while it sent it."""
        declared = header(scope, b"content-length") or b"0"
        if int(declared) > self._max_bytes:
            raise RequestTooLarge(limit_bytes=self._max_bytes)
        pieces: list[bytes] = []
        total = 0
        while True:
            message = await self._receive(receive)
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            total += len(piece)
            if total > self._max_bytes:
                raise RequestTooLarge(limit_bytes=self._max_bytes)
            held.add(len(piece))
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def _receive(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await receive()
        except TimeoutError:
            raise HTTPProblem(
                408, f"no more of the body came for {self._silence_seconds:g} s", code="request_timeout"
            ) from None

    def take(self, count: int) -> None:
        if self._held_bytes + count > self._capacity * self._max_bytes:
            raise ServerOverloaded(capacity=self._capacity)
        self._held_bytes += count

    def give_back(self, count: int) -> None:
        self._held_bytes -= count


class _HeldBytes:
    """What one request holds of the server's bound."""

    def __init__(self, layer: BodyLayer) -> None:
        self._layer = layer
        self._count = 0

    def add(self, count: int) -> None:
        self._layer.take(count)
        self._count += count

    def release(self) -> None:
        self._layer.give_back(self._count)
        self._count = 0


def _content_encoding(scope: Scope) -> str:
    value = (header(scope, b"content-encoding") or b"identity").decode("latin-1").strip().lower()
    known: dict[str, str] = {"": "identity", "identity": "identity", "gzip": "gzip", "x-gzip": "gzip"}
    if value not in known:
        raise HTTPProblem(
            400,
            f"content-encoding '{value}' is not understood here; send gzip, or the body as it is",
            code="unsupported_content_encoding",
        )
    return known[value]


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    """Every member of a gzip body, never more than `max_bytes` of it at once."""
    pieces: list[bytes] = []
    total = 0
    try:
        while body or not pieces:
            member = zlib.decompressobj(_GZIP_WINDOW)
            pieces.append(member.decompress(body, max_bytes + 1 - total))
            total += len(pieces[-1])
            if total > max_bytes:
                raise RequestTooLarge(limit_bytes=max_bytes)
            if not member.eof:
                raise zlib.error("it ends too early")
            body = member.unused_data
    except zlib.error as problem:
        raise HTTPProblem(400, f"the body is not valid gzip: {problem}", code="invalid_content_encoding") from None
    return b"".join(pieces)


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
