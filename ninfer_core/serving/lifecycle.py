"""One server from a plan to its end: socket, engine, frontend, application, ready line, drain."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import uvloop

from ninfer_core.api.frontend import Frontend
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
from ninfer_core.plan.settings import ServerSettings
from ninfer_core.serving.app import create_app
from ninfer_core.serving.engine_link import EngineLink
from ninfer_core.serving.listening import listening_socket
from ninfer_core.serving.sampling import SamplingSource
from ninfer_core.serving.server import HTTPServer
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import Log

KEEP_ALIVE_SECONDS = 5.0
"""Silence after which a stream sends a comment (contract GEN-16)."""

BuildProtocols = Callable[[ProtocolContext], list[ProtocolRoutes]]


class PhaseClock:
    """Seconds of each phase of the start, for the ready line; each is logged as it ends."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begin = time.monotonic()
        self._seconds: dict[str, float] = {}

    def done(self, name: str, seconds: float) -> None:
        self._seconds[name] = seconds
        self._log.info("phase_done", phase=name, seconds=seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.done(name, time.monotonic() - begin)

    def report(self) -> Mapping[str, str]:
        phases = ",".join(f"{name}:{seconds:.2f}" for name, seconds in self._seconds.items())
        return {"start_seconds": f"{time.monotonic() - self._begin:.2f}", "phases": phases}


def run_server(
    plan: ExecutionPlan,
    settings: ServerSettings,
    *,
    frontend: Frontend,
    link: EngineLink,
    protocols: BuildProtocols,
    clock: PhaseClock,
    log: Log,
    sampling: SamplingSource | None = None,
) -> None:
    """Serve until a signal. Raises StartupError before the ready line; after it, only a signal ends the server."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(plan, settings, frontend, link, protocols, clock, log, sampling))


async def _serve(
    plan: ExecutionPlan,
    settings: ServerSettings,
    frontend: Frontend,
    link: EngineLink,
    protocols: BuildProtocols,
    clock: PhaseClock,
    log: Log,
    sampling: SamplingSource | None,
) -> None:
    # First of all, so that a port in use is found before a model is loaded for nothing.
    with listening_socket(settings.host, settings.port) as listener:
        url = _url(settings.host, listener.getsockname()[1])
        try:
            await link.start(clock.done)
            service = EngineService(plan, frontend, link, settings.model_id, log, sampling=sampling)
            app = create_app(
                service.model,
                protocols(_context(plan, settings, service)),
                is_available=service.is_available,
                api_key=None if settings.api_key is None else settings.api_key.reveal(),
                cors=settings.cors,
                max_request_bytes=settings.max_request_bytes,
                log=log,
            )
            server = HTTPServer(
                app,
                log,
                on_listening=lambda: _log_ready(log, plan, settings, url, clock),
                on_drain_end=lambda: link.close("the server is shutting down"),
            )
            with _stopped_by_signals(server):
                await server.run_on(listener)
            if server.force_exit:
                await _end_at_once(link, log)
            await service.close()
        finally:
            await link.stop()
    log.info("stopped")


async def _end_at_once(link: EngineLink, log: Log) -> None:
    """An ordinary exit would wait for the threads that still prepare prompts."""
    await link.stop(grace_seconds=0)
    log.warning("stopped_at_once")
    sys.stderr.flush()
    os._exit(1)


def _context(plan: ExecutionPlan, settings: ServerSettings, service: EngineService) -> ProtocolContext:
    return ProtocolContext(
        service=service,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        compat=frozenset(plan.compat),
        response_store_max_records=settings.response_store_max_records,
        response_store_max_bytes=settings.response_store_max_bytes,
    )


@contextmanager
def _stopped_by_signals(server: HTTPServer) -> Iterator[None]:
    """The first SIGTERM or SIGINT drains, a second one ends at once."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _log_ready(log: Log, plan: ExecutionPlan, settings: ServerSettings, url: str, clock: PhaseClock) -> None:
    capacities = plan.capacities
    log.info(
        "ready",
        url=url,
        model=settings.model_id,
        plan=plan.digest,
        device=plan.device.name,
        max_context=capacities.max_context,
        kv_tokens=capacities.kv_pages * capacities.page_tokens,
        max_concurrency=capacities.max_concurrency,
        max_pending_requests=capacities.max_pending_requests,
        **clock.report(),
    )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
