"""Permissive browser headers, for `--cors` (contract AUTH-2, AUTH-3, OPT-40)."""

from __future__ import annotations

from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send, send_answer

_PREFLIGHT_SECONDS = 86400
_EXPOSED = b"x-request-id, request-id"


class CORSLayer:
    """Answers preflights itself, outside authentication, and lets every origin read every answer."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["method"] == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers:
            await _answer_preflight(send, headers)
            return

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    (b"access-control-allow-origin", b"*"),
                    (b"access-control-expose-headers", _EXPOSED),
                ]
            await send(message)

        await self._app(scope, receive, send_readable)


async def _answer_preflight(send: Send, headers: dict[bytes, bytes]) -> None:
    """The headers a browser asks for are allowed by name: '*' would not cover `authorization`."""
    answer = [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"*")),
        (b"access-control-max-age", str(_PREFLIGHT_SECONDS).encode()),
        (b"vary", b"access-control-request-headers"),
    ]
    await send_answer(send, 204, answer, b"")
