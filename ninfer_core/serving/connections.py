"""uvicorn's protocol with bounds on connections: how many there are, how long one may be open without a request, and
how long a request's head may be.

A refusal comes before a path is known, so it has the one form that all protocols' errors share, in OpenAI's words.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ninfer_core.serving.envelope import new_request_id
from ninfer_core.serving.old_clients import answer_until_closed

MAX_CONNECTIONS = 1024
"""Far more than requests that a server takes; pools of clients keep idle ones."""

_OTHER_FILES = 128
"""What the process opens beside connections: the model's files, libraries, the engine's pipes."""

HEAD_SECONDS = 30.0
"""How long the head of a request may take, on a new connection from its first moment."""

MAX_HEAD_BYTES = 64 * 1024
"""Request line and header fields, and later the trailer fields; one read of the socket may go beyond it."""

_CHUNK_FRAME_BYTES = 32
"""Of a body in chunks, what may stand around each piece without counting as fields."""

_WAITING_REQUESTS = 16
"""How many requests of one connection may wait for the one before them while it is still read."""

_LINGER_SECONDS = 1.0
"""For a refused client to send its request: closed earlier, the connection would be reset and the answer lost."""


def connection_bound() -> int:
    """Within what the operating system lets this process open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, files - _OTHER_FILES))


def _refusal(status: str, code: str, kind: str, message: str, *fields: str) -> bytes:
    """A whole answer with an id of its own, as every other answer has one."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    body = msgspec.json.encode({"error": error})
    head = (
        f"HTTP/1.1 {status}",
        "content-type: application/json",
        f"x-request-id: {new_request_id()}",
        f"content-length: {len(body)}",
        *fields,
        "connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _too_many(max_connections: int) -> bytes:
    message = f"the server has its {max_connections} connections already; reuse yours, or try again later"
    return _refusal("503 Service Unavailable", "too_many_connections", "server_error", message, "retry-after: 1")


def _no_http(problem: str) -> bytes:
    message = f"what came is no HTTP/1.1 request ({problem}); check the request line, the fields and their line ends"
    return _refusal("400 Bad Request", "invalid_http", "invalid_request_error", message)


def _head_too_large() -> bytes:
    message = f"the head of the request is larger than {MAX_HEAD_BYTES} bytes; send fewer or shorter header fields"
    return _refusal("431 Request Header Fields Too Large", "request_head_too_large", "invalid_request_error", message)


def bounded_protocol(max_connections: int, head_seconds: float) -> type[HttpToolsProtocol]:
    """Answers 503 `too_many_connections` beyond `max_connections`, and drops without an answer beyond twice as many;
    answers 431 `request_head_too_large` beyond MAX_HEAD_BYTES, and 400 `invalid_http` to what cannot be read."""

    class BoundedProtocol(HttpToolsProtocol):
        _refused = False
        _head_timer: asyncio.TimerHandle | None = None
        _field_bytes = 0
        """Received since the last message or head was complete, without bodies."""
        _answering: RequestResponseCycle | None = None
        """uvicorn's `cycle` is the request that came last, which may still wait for the one before it."""

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
                return
            self._field_bytes += len(data)
            super().data_received(data)
            if self._field_bytes > MAX_HEAD_BYTES:
                self._refuse_fields()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_there()
            super().connection_lost(exc)
            if self._answering is not None and not self._answering.response_complete:
                self._answering.disconnected = True
                self._answering.message_event.set()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._await_head()

        def on_headers_complete(self) -> None:
            self._head_is_there()
            self._field_bytes = 0
            super().on_headers_complete()
            if self.cycle is not None and self.scope["http_version"] != "1.1":
                answer_until_closed(self.cycle)
            if 0 < len(self.pipeline) <= _WAITING_REQUESTS:
                # uvicorn stops reading with the first request that waits, and would not see the client go.
                self.flow.resume_reading()

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            self._answering = cycle
            super()._start_asgi_task(cycle, app)

        def on_body(self, body: bytes) -> None:
            self._field_bytes = max(0, self._field_bytes - len(body) - _CHUNK_FRAME_BYTES)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._field_bytes = 0
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            """uvicorn's own is plain text. What it was that could not be read is in its exception alone."""
            problem = sys.exc_info()[1]
            self._answer_and_close(_no_http(str(problem) if problem else msg))

        def _unsupported_upgrade_warning(self) -> None:
            """Whoever asks for another protocol is answered in this one (RFC 9110, section 7.8), which is nothing to
            warn of; uvicorn would tell the operator to install a library for it."""

        def _await_head(self) -> None:
            self._head_is_there()
            self._head_timer = self.loop.call_later(head_seconds, self.transport.close)

        def _head_is_there(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse(self) -> None:
            if not self.transport.is_closing():
                self.transport.write(_too_many(max_connections))
                self.transport.close()

        def _refuse_fields(self) -> None:
            self._answer_and_close(_head_too_large())

        def _answer_and_close(self, answer: bytes) -> None:
            if self.transport.is_closing():
                return
            # Not into the middle of an answer to an earlier request, or to the one that this is a part of.
            cycle = self._answering
            if cycle is None or cycle.response_complete or not cycle.response_started:
                self.transport.write(answer)
            self.transport.close()

    return BoundedProtocol
