"""A real HTTP server on a thread of this process: what tests of clients, streams and disconnects talk to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ninfer_core.api.frontend import Frontend
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
from ninfer_core.serving.app import create_app
from ninfer_core.serving.asgi import Application
from ninfer_core.serving.engine_link import EngineLink
from ninfer_core.serving.listening import listening_socket
from ninfer_core.serving.sampling import SamplingSource
from ninfer_core.serving.server import HTTPServer
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import Log, create_log
from ninfer_core.testing.simulated_frontend import SimulatedFrontend

START_SECONDS = 30.0


@dataclass
class LiveServer:
    """`base_url` ends without a slash. `service` and `link` belong to the server's thread: read, do not call."""

    base_url: str
    service: EngineService
    link: EngineLink
    stop: Callable[[], None]


@dataclass
class _Handover:
    """What the server's thread tells the test's."""

    ready: threading.Event = field(default_factory=threading.Event)
    server: LiveServer | None = None
    error: BaseException | None = None


@contextmanager
def live_server(
    plan: ExecutionPlan,
    link: EngineLink,
    build_protocols: Callable[[ProtocolContext], list[ProtocolRoutes]],
    *,
    api_key: str | None = None,
    cors: bool = False,
    max_request_bytes: int = 1024 * 1024,
    keep_alive_seconds: float = 5.0,
    drain_seconds: int = 5,
    stall_seconds: float = 60.0,
    model_id: str | None = None,
    log: Log | None = None,
    frontend: Frontend | None = None,
    sampling: SamplingSource | None = None,
    context: Mapping[str, Any] | None = None,
) -> Iterator[LiveServer]:
    """Serve on a free port until the block ends. Without a `frontend` it is the simulated one: prompts are bytes.
    `context` has more fields of the protocols' ProtocolContext."""
    used_log = log or create_log("off")

    @asynccontextmanager
    async def application() -> AsyncIterator[tuple[Application, EngineService]]:
        await link.start(lambda name, seconds: None)
        service = EngineService(
            plan,
            frontend or SimulatedFrontend(),
            link,
            model_id or plan.identity.model_id,
            used_log,
            sampling=sampling,
        )
        app = create_app(
            service.model,
            build_protocols(ProtocolContext(service=service, keep_alive_seconds=keep_alive_seconds, **(context or {}))),
            is_available=service.is_available,
            api_key=api_key,
            cors=cors,
            max_request_bytes=max_request_bytes,
            log=used_log,
            stall_seconds=stall_seconds,
        )
        try:
            yield app, service
            await service.close()
        finally:
            await link.stop()

    handover = _Handover()
    arguments = (application, link, used_log, drain_seconds, handover)
    thread = threading.Thread(target=lambda: asyncio.run(_serve(*arguments)), name="live-server", daemon=True)
    thread.start()
    assert handover.ready.wait(START_SECONDS), "the server did not start"
    if handover.error is not None:
        raise handover.error
    assert handover.server is not None
    try:
        yield handover.server
    finally:
        handover.server.stop()
        thread.join(START_SECONDS)
        assert not thread.is_alive(), "the server did not stop"


async def _serve(
    application: Callable[[], AbstractAsyncContextManager[tuple[Application, EngineService]]],
    link: EngineLink,
    log: Log,
    drain_seconds: int,
    handover: _Handover,
) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with application() as (app, service):
            with listening_socket("127.0.0.1", 0) as listener:
                server = HTTPServer(
                    app,
                    log,
                    on_listening=handover.ready.set,
                    on_drain_end=lambda: link.close("the server is shutting down"),
                    drain_seconds=drain_seconds,
                )
                handover.server = LiveServer(
                    base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
                    service=service,
                    link=link,
                    stop=partial(_stop_from_elsewhere, loop, server),
                )
                await server.run_on(listener)
    except BaseException as error:
        handover.error = error
        handover.ready.set()
        raise


def _stop_from_elsewhere(loop: asyncio.AbstractEventLoop, server: HTTPServer) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(server.stop)
