"""uvicorn's protocol with bounds on connections: how many there are, and how long one may be open without a request.

A refusal comes before a path is known, so it has the one form that all protocols' errors share, in OpenAI's words.
"""

from __future__ import annotations

import asyncio
import resource

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_CONNECTIONS = 1024
"""Far more than requests that a server takes; pools of clients keep idle ones."""

_OTHER_FILES = 128
"""What the process opens beside connections: the model's files, libraries, the engine's pipes."""

HEAD_SECONDS = 30.0
"""How long the head of a request may take, on a new connection from its first moment."""

_LINGER_SECONDS = 1.0
"""For a refused client to send its request: closed earlier, the connection would be reset and the answer lost."""


def connection_bound() -> int:
    """Within what the operating system lets this process open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, files - _OTHER_FILES))


def _refusal(max_connections: int) -> bytes:
    error = {
        "message": f"the server has its {max_connections} connections already; reuse yours, or try again later",
        "type": "server_error",
        "param": None,
        "code": "too_many_connections",
    }
    body = msgspec.json.encode({"error": error})
    head = (
        "HTTP/1.1 503 Service Unavailable",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "retry-after: 1",
        "connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def bounded_protocol(max_connections: int, head_seconds: float) -> type[HttpToolsProtocol]:
    """Answers 503 `too_many_connections` beyond `max_connections`, and drops without an answer beyond twice as many."""
    refusal = _refusal(max_connections)

    class BoundedProtocol(HttpToolsProtocol):
        _refused = False
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > 2 * max_connections:
                transport.abort()
            elif len(self.connections) > max_connections:
                self._refused = True
                self._head_timer = self.loop.call_later(_LINGER_SECONDS, self._refuse)
            else:
                self._await_head()

        def data_received(self, data: bytes) -> None:
            if self._refused:
                self._refuse()
            else:
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_there()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._await_head()

        def on_headers_complete(self) -> None:
            self._head_is_there()
            super().on_headers_complete()

        def _await_head(self) -> None:
            self._head_is_there()
            self._head_timer = self.loop.call_later(head_seconds, self.transport.close)

        def _head_is_there(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse(self) -> None:
            if not self.transport.is_closing():
                self.transport.write(refusal)
                self.transport.close()

    return BoundedProtocol
