"""The outermost layer: every answer has a request id, and every error the form of its protocol.

This is one of the three edges with a broad catch: what is not a typed error is a bug, logged here with its code.
"""

from __future__ import annotations

import secrets

from litestar.exceptions import LitestarException

from ninfer_core.api.errors import NinferError
from ninfer_core.api.protocol import WireError
from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send
from ninfer_core.serving.errors import ErrorForms, InternalError, send_wire_error
from ninfer_core.telemetry import Log

_ID_HEADERS = (b"x-request-id", b"request-id")
"""Where an answer may already carry its id: OpenAI's header, or the one of another protocol (contract GEN-15)."""


def new_request_id() -> str:
    """Of one answer, for whoever looks for it in a log."""
    return f"req_{secrets.token_hex(16)}"


class EnvelopeLayer:
    """Adds `x-request-id` (contract GEN-14, IMPL-1) and answers errors that nothing inside has answered."""

    def __init__(self, app: Application, forms: ErrorForms, log: Log) -> None:
        self._app = app
        self._forms = forms
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send, new_request_id())
        try:
            await self._app(scope, receive, answer.send)
        except Exception as problem:
            error = _unwrapped(problem)
            if isinstance(error, NinferError):
                await self._answer_error(answer, self._forms.wire_error(scope["path"], error), error.code)
                return
            wire = self._forms.wire_error(scope["path"], InternalError())
            # The id that the client sees, which some protocols choose themselves.
            request_id = wire.headers.get("request-id", answer.request_id)
            self._log.error("request_broken", code=InternalError.code, request=request_id, exc_info=error)
            await self._answer_error(answer, wire, InternalError.code)

    async def _answer_error(self, answer: _Answer, wire: WireError, code: str) -> None:
        if not answer.started:
            await send_wire_error(answer.send, wire)
        elif not answer.complete:
            # The status is out already. The server closes a connection whose answer is not complete, which is how
            # the client can tell.
            self._log.warning("answer_cut", code=code, request=answer.request_id)


def _unwrapped(error: Exception) -> Exception:
    """What happened: once an answer has begun, Litestar wraps it, and before that the task group of a stream does."""
    while True:
        if isinstance(error, LitestarException) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        elif isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        else:
            return error


class _Answer:
    """Watches what is sent, and adds the id to its headers."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.started = False
        self.complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = list(message.get("headers", []))
            if not any(name.lower() in _ID_HEADERS for name, _ in headers):
                headers.append((b"x-request-id", self.request_id.encode()))
            message["headers"] = headers
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        await self._send(message)
