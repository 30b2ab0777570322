"""uvicorn on our socket: `stop` drains within a bound, and called again ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn

from ninfer_core.serving.asgi import Application
from ninfer_core.serving.connections import HEAD_SECONDS, bounded_protocol, connection_bound
from ninfer_core.serving.listening import address_refused
from ninfer_core.telemetry import Log, forward_standard_logging

DRAIN_SECONDS = 30
"""How long requests that are running at a SIGTERM may take to finish; then they are cut."""

_CUT_SECONDS = 2
"""How long requests that were told of the end of the drain may take to tell their clients."""

IDLE_SECONDS = 75
"""How long an idle connection is kept: longer than the pools of usual clients, so that they close it, not we."""


class HTTPServer(uvicorn.Server):
    """Serves until `stop`. `on_listening` is called once the socket accepts connections, `on_drain_end` when what is
    running has had its time and has to end."""

    def __init__(
        self,
        app: Application,
        log: Log,
        *,
        on_listening: Callable[[], None],
        on_drain_end: Callable[[], None] = lambda: None,
        drain_seconds: int = DRAIN_SECONDS,
        max_connections: int | None = None,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=bounded_protocol(max_connections or connection_bound(), head_seconds),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=drain_seconds + _CUT_SECONDS,
        )
        super().__init__(config)
        self._log = log
        self._on_listening = on_listening
        self._on_drain_end = on_drain_end
        self._drain_seconds = drain_seconds

    async def run_on(self, listener: socket.socket) -> None:
        """Serve `listener` until the end of the drain. Raises StartFailed when it cannot listen."""
        forward_standard_logging("uvicorn", self._log)
        host, port = listener.getsockname()[:2]
        try:
            # Not left to the event loop: uvloop says nothing when it fails, which it does where another program that
            # had bound the address too was first to listen.
            listener.listen(self.config.backlog)
        except OSError as problem:
            raise address_refused(host, port, problem) from None
        await self.serve(sockets=[listener])

    def stop(self) -> None:
        """Stop accepting and drain; called again, end at once."""
        if self.should_exit:
            self.force_exit = True
        else:
            self._log.info("draining", connections=len(self.server_state.connections))
            self.should_exit = True
            asyncio.get_running_loop().call_later(self._drain_seconds, self._on_drain_end)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise each signal again at the end, and so turn a clean shutdown into a death by signal."""
        yield
