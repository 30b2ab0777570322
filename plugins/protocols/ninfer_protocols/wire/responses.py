"""A JSON answer as an ASGI application, encoded by msgspec."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from litestar.types import Receive, Scope, Send

Headers = Sequence[tuple[bytes, bytes]]
"""Header lines of an answer, beside those it has anyway."""


_PIECE_BYTES = 64 * 1024
"""The server waits for a client that reads slowly between two pieces, not within one."""


class JSONAnswer:
    """Sends `body` with `status`; encoding happens at construction, so that a bug in it is a clean error. Bytes are
    JSON already."""

    def __init__(self, body: object, *, status: int = 200, headers: Headers = ()) -> None:
        self._status = status
        self._headers = headers
        self._body = body if isinstance(body, bytes) else msgspec.json.encode(body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            *self._headers,
        ]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        for start in range(0, len(self._body), _PIECE_BYTES):
            piece = self._body[start : start + _PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
