"""Request bodies, counted before anything looks at them (contract MEDIA-6, EXEC-21; decision 11).

A body is read whole, within three bounds: its size, the bytes that all bodies of the server hold at once, and the
silence between two pieces. Compressed bodies are bounded in both forms.
"""

from __future__ import annotations

import asyncio

from ninfer_core.api.errors import RequestTooLarge, ServerOverloaded
from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send, header
from ninfer_core.serving.content_encoding import decompressed, known_encoding
from ninfer_core.serving.errors import HTTPProblem

SILENCE_SECONDS = 30.0
"""Longest wait for the next piece of a body."""


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
        encoding = known_encoding((header(scope, b"content-encoding") or b"").decode("latin-1"))
        held = _HeldBytes(self)
        try:
            body = await self._read(scope, receive, held)
            if body is None:
                return
            if encoding != "identity":
                body = await asyncio.to_thread(decompressed, body, encoding, self._max_bytes)
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
