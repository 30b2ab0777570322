"""The engine in a process of its own, over a socket pair.

Either side notices the other's death by the end of the socket. When the engine is gone, every open request ends with
ServiceUnavailable and stays refused; the front lives on to say so (design: one 503, not a dead port).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable

from ninfer_core.api.errors import ServiceUnavailable, StartFailed
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.engine.messages import Cancel, EngineMessage, FrontMessage, Shutdown, Submit
from ninfer_core.engine.scripted.script import Script
from ninfer_core.engine.wire import AsyncReader, EngineStart, FrameInvalid, encode_frame, engine_decoder
from ninfer_core.program.contract import OnPhase
from ninfer_core.serving.engine_link import LinkState, start_step
from ninfer_core.serving.request_events import RequestEvents
from ninfer_core.telemetry import Log

START_SECONDS = 1800.0
"""Longest wait for an engine to be ready: reading 60 GB from a slow disk takes minutes."""

SILENCE_SECONDS = 5.0
"""How long a starting engine may be silent before its process is looked at, and how long one that has ended is still
listened to: a process of its own that holds the socket open keeps the end of the connection from coming."""

STOP_SECONDS = 10.0
"""Longest wait for an engine to end by itself; then it is killed."""


class ProcessLink:
    """EngineLink over `python -m ninfer_core.engine.process`."""

    def __init__(
        self,
        plan: ExecutionPlan,
        source: str | None,
        *,
        log: Log,
        log_level: str,
        stats_interval_ms: int = 0,
        script: Script | None = None,
    ) -> None:
        self._start = EngineStart(
            plan=plan, source=source, log_level=log_level, stats_interval_ms=stats_interval_ms, script=script
        )
        self._state = LinkState(plan.digest, log)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None

    @property
    def failure(self) -> str | None:
        return self._state.failure

    @property
    def process_id(self) -> int | None:
        """Of the engine process, once it has been started."""
        return None if self._process is None else self._process.pid

    async def start(self, on_phase: OnPhase) -> None:
        try:
            ours = self._begin_process()
        except OSError as problem:
            limits = "`ulimit -a` shows the limits on files, processes and memory"
            raise StartFailed(f"the engine's process cannot be started: {problem.strerror}; {limits}") from problem
        ours.setblocking(False)
        stream, self._writer = await asyncio.open_connection(sock=ours)
        reader = AsyncReader(stream, engine_decoder())
        try:
            self._writer.write(encode_frame(self._start))
            async with asyncio.timeout(START_SECONDS):
                await self._until_ready(reader, on_phase)
        except TimeoutError:
            await self.stop()
            raise StartFailed(f"the engine was not ready after {START_SECONDS:g} s") from None
        except BaseException:
            await self.stop()
            raise
        self._listener = asyncio.create_task(self._listen(reader))

    def submit(self, message: Submit, on_end: Callable[[], None]) -> RequestEvents:
        events = self._state.open(message.request_id, on_end, lambda: self.cancel(message.request_id))
        if not self._post(message):
            events.fail(ServiceUnavailable("the engine process has ended"))
        return events

    def cancel(self, request_id: int) -> None:
        if self._state.failure is None:
            self._post(Cancel(request_id=request_id))

    def close(self, reason: str) -> None:
        self._state.close(reason)

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """Past the grace time the process is killed."""
        self._state.close("it has been stopped")
        if self._process is None:
            return
        if grace_seconds == 0:
            self._process.kill()
        elif self._writer is not None and not self._writer.is_closing():
            self._post(Shutdown(drain=False))
        try:
            await asyncio.to_thread(self._process.wait, grace_seconds or STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()

    def _post(self, message: FrontMessage) -> bool:
        """Never waits: what is buffered here is bounded by the requests that are open. False when the engine is gone,
        which the listener has yet to find out the reason of."""
        assert self._writer is not None, "the engine has not been started"
        if self._writer.is_closing():
            return False
        try:
            self._writer.write(encode_frame(message))
        except (OSError, RuntimeError):  # uvloop's word for a transport that has just been closed
            return False
        return True

    async def _until_ready(self, reader: AsyncReader[EngineMessage], on_phase: OnPhase) -> None:
        while True:
            try:
                message = await self._next_of_start(reader)
            except (FrameInvalid, OSError) as error:
                raise StartFailed(f"the engine process ended while it started: {error}") from error
            ready = start_step(message, on_phase)
            if ready is not None:
                self._state.accept_ready(ready)
                return

    async def _next_of_start(self, reader: AsyncReader[EngineMessage]) -> EngineMessage | None:
        """The next message; None when there will be none. Raises StartFailed when the process has ended and its
        connection has not."""
        assert self._process is not None
        reading = asyncio.ensure_future(reader.read())
        try:
            while True:
                status = self._process.poll()
                await asyncio.wait((reading,), timeout=SILENCE_SECONDS)
                if reading.done():
                    return reading.result()
                if status is not None:
                    raise StartFailed(f"the engine process ended while it started{await self._exit_status()}")
        finally:
            reading.cancel()

    async def _listen(self, reader: AsyncReader[EngineMessage]) -> None:
        reason = "the engine process has ended"
        try:
            while (message := await reader.read()) is not None:
                self._state.receive(message)
        except Exception as error:
            # A task that just ended would leave a server that says it is well and answers nobody.
            reason = f"the link to the engine process broke ({type(error).__name__})"
            self._log.error("engine_link_broken", exc_info=error)
            if self._writer is not None:
                self._writer.close()  # and so the engine ends
        self._state.fail(f"{reason}{await self._exit_status()}")

    def _begin_process(self) -> socket.socket:
        """Our end of the socket that it talks through."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _spawn(theirs)
            except OSError:
                ours.close()
                raise
        return ours

    async def _exit_status(self) -> str:
        """How the process ended, where that is known at once: the requests wait for this."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = await asyncio.to_thread(self._process.wait, 0.5)
            return f" (signal {-status})" if status < 0 else f" (exit code {status})"
        return ""


def _spawn(theirs: socket.socket) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ninfer_core.engine.process", "--socket-fd", str(theirs.fileno())]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
