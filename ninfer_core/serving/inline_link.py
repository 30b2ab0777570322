"""The engine in a thread of this process: tests, `ninfer generate` and `ninfer chat`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ninfer_core.api.frontend import Frontend
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.engine.inline import BuildProgram, InlineEngine
from ninfer_core.engine.messages import Cancel, EngineMessage, PhaseDone, Ready, Submit
from ninfer_core.program.contract import OnPhase
from ninfer_core.serving.engine_link import LinkState
from ninfer_core.serving.request_events import RequestEvents
from ninfer_core.telemetry import Log

STOP_SECONDS = 30.0


class InlineLink:
    """EngineLink over InlineEngine. Its messages are moved from the engine's thread to the event loop."""

    def __init__(
        self,
        plan: ExecutionPlan,
        frontend: Frontend,
        build_program: BuildProgram,
        log: Log,
        *,
        stats_interval_ms: int = 0,
    ) -> None:
        self._engine = InlineEngine(
            plan, frontend, build_program, self._publish, log, stats_interval_ms=stats_interval_ms
        )
        self._state = LinkState(plan.digest, log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_phase: OnPhase | None = None
        self._started = False

    @property
    def failure(self) -> str | None:
        return self._state.failure

    async def start(self, on_phase: OnPhase) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_phase = on_phase
        self._started = True
        await asyncio.to_thread(self._engine.start)
        # Ready was published before `start` returned, so the loop has it by the next turn.
        await asyncio.sleep(0)

    def submit(self, message: Submit, on_end: Callable[[], None]) -> RequestEvents:
        events = self._state.open(message.request_id, on_end, lambda: self.cancel(message.request_id))
        self._engine.post(message)
        return events

    def cancel(self, request_id: int) -> None:
        if self._state.failure is None:
            self._engine.post(Cancel(request_id=request_id))

    def close(self, reason: str) -> None:
        self._state.close(reason)

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """A thread cannot be ended: past the grace time it is left to itself."""
        if self._started:
            grace_seconds = STOP_SECONDS if grace_seconds is None else grace_seconds
            await asyncio.to_thread(self._engine.stop, timeout_seconds=grace_seconds)
        self._state.close("it has been stopped")

    def _publish(self, message: EngineMessage) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._receive, message)

    def _receive(self, message: EngineMessage) -> None:
        match message:
            case PhaseDone():
                assert self._on_phase is not None
                self._on_phase(message.name, message.seconds)
            case Ready():
                self._state.accept_ready(message)
            case _:
                self._state.receive(message)
