"""The front's side of the engine: what both transports share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ninfer_core.api.errors import ServiceUnavailable, StartFailed
from ninfer_core.engine.messages import EngineMessage, Fatal, PhaseDone, Ready, Submit, Throughput
from ninfer_core.program.contract import OnPhase
from ninfer_core.serving.request_events import EventTable, RequestEvents
from ninfer_core.serving.throughput import throughput_fields
from ninfer_core.telemetry import Log


class EngineLink(Protocol):
    """A started engine, wherever it runs. All methods are called on one event loop."""

    @property
    def failure(self) -> str | None:
        """Why the engine accepts no work; None while it does."""
        ...

    async def start(self, on_phase: OnPhase) -> None:
        """Return when the engine is ready. Raises StartFailed, or what kept it from starting."""
        ...

    def submit(self, message: Submit, on_end: Callable[[], None]) -> RequestEvents:
        """Hand a request over. `on_end` is called once, when the engine has let go of it. Raises
        ServiceUnavailable."""
        ...

    def cancel(self, request_id: int) -> None:
        """Ids that have ended are ignored."""
        ...

    def close(self, reason: str) -> None:
        """Take no more work; what is open ends with ServiceUnavailable. The engine is still to be stopped."""
        ...

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """End the engine; what is still open ends with ServiceUnavailable. May be called at any time.
        `grace_seconds` is how long it may take by itself; None is the link's own bound."""
        ...


class LinkState:
    """Requests and standing of a link. `receive` is called on the event loop, for every message of the engine."""

    def __init__(self, plan_digest: str, log: Log) -> None:
        self._plan_digest = plan_digest
        self._log = log
        self._table = EventTable()
        self.failure: str | None = "it is starting"

    def receive(self, message: EngineMessage) -> None:
        if isinstance(message, Fatal):
            self.fail(f"{message.code}: {message.message}")
        elif isinstance(message, Throughput):
            self._log.info("throughput", **throughput_fields(message))
        else:
            self._table.receive(message)

    def accept_ready(self, ready: Ready) -> None:
        """Raises StartFailed when the engine resolved another plan than the front."""
        if ready.plan_digest != self._plan_digest:
            raise StartFailed(
                f"the engine resolved plan {ready.plan_digest} and the front {self._plan_digest}; "
                "both must see the same plugins and artifact"
            )
        self.failure = None

    def open(self, request_id: int, on_end: Callable[[], None], on_overflow: Callable[[], None]) -> RequestEvents:
        if self.failure is not None:
            raise ServiceUnavailable(self.failure)
        return self._table.open(request_id, on_end, on_overflow)

    def fail(self, reason: str) -> None:
        """The engine is gone, and nobody asked it to go. The first reason stands."""
        if self.failure is None:
            self._log.critical("engine_lost", reason=reason)
        self.close(reason)

    def close(self, reason: str) -> None:
        """No more work: what is open ends with ServiceUnavailable."""
        self.failure = self.failure or reason
        self._table.fail_all(self.failure)


def start_step(message: EngineMessage | None, on_phase: OnPhase) -> Ready | None:
    """One message of a starting engine: Ready when it has started, None to go on. Raises StartFailed."""
    match message:
        case PhaseDone():
            on_phase(message.name, message.seconds)
            return None
        case Ready():
            return message
        case Fatal():
            code = "" if message.code == StartFailed.code else f"{message.code}: "
            raise StartFailed(f"the engine did not start: {code}{message.message}")
        case None:
            raise StartFailed("the engine process ended while it started; its own message stands above")
        case _:
            raise StartFailed(f"the engine sent {type(message).__name__} before it was ready")
