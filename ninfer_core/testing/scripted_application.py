"""The whole HTTP application over a scripted service, in this process or on a real port: for tests of protocols.

The layers, the routes and the errors are those of a server; the service behind them is `scripted_service`, whose events
are written down. Where generated text has to be parsed, stopped or cut, use `scripted_server`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from ninfer_core.api.protocol import Compat, ProtocolContext, ProtocolRoutes
from ninfer_core.serving.app import create_app
from ninfer_core.serving.asgi import Application
from ninfer_core.serving.listening import listening_socket
from ninfer_core.serving.server import HTTPServer
from ninfer_core.telemetry import Log, create_log
from ninfer_core.testing.scripted_service import ScriptedService

START_SECONDS = 30.0


def scripted_application(
    service: ScriptedService,
    build_protocols: Sequence[Callable[..., ProtocolRoutes]],
    *,
    api_key: str | None = None,
    keep_alive_seconds: float = 5.0,
    compat: frozenset[Compat] = frozenset(),
    max_request_bytes: int = 1024 * 1024,
) -> Application:
    """All layers of a server. `build_protocols` are hooks `ninfer_protocol_build`."""
    context = ProtocolContext(service=service, keep_alive_seconds=keep_alive_seconds, compat=compat)
    return create_app(
        service.model,
        [build(context=context) for build in build_protocols],
        is_available=lambda: True,
        api_key=api_key,
        cors=False,
        max_request_bytes=max_request_bytes,
        log=create_log("off"),
    )


def exchange(
    app: Application, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
) -> httpx.Response:
    """One request without a socket; a stream is read to its end. `content` is httpx's `json` or `content`."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://scripted", timeout=30) as client:
            return await client.request(method, path, headers=headers, **content)

    return asyncio.run(send())


@contextmanager
def listening(app: Application, log: Log | None = None, **server: Any) -> Iterator[str]:
    """Serve on a free port until the block ends; gives the URL without a slash at its end. `server` goes to
    HTTPServer."""
    ready = threading.Event()
    with listening_socket("127.0.0.1", 0) as listener:
        bounded = HTTPServer(app, log or create_log("off"), on_listening=ready.set, drain_seconds=5, **server)
        thread = threading.Thread(
            target=lambda: asyncio.run(bounded.run_on(listener)), name="scripted-application", daemon=True
        )
        thread.start()
        assert ready.wait(START_SECONDS), "the server did not start"
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            bounded.should_exit = True
            thread.join(START_SECONDS)
            assert not thread.is_alive(), "the server did not stop"
