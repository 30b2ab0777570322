"""The engine in a thread of this process: for tests, `ninfer generate` and anything that wants no second process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from ninfer_core.api.errors import NinferError, StartFailed
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.engine.engine import Engine
from ninfer_core.engine.messages import FrontMessage, PhaseDone, Ready, Shutdown
from ninfer_core.engine.publication import Publish
from ninfer_core.program.contract import OnPhase, Program
from ninfer_core.telemetry import Log

BuildProgram = Callable[[OnPhase], Program]


class InlineEngine:
    """Builds the program and runs the engine on one thread of its own, publishing the same messages as an engine
    process: PhaseDone for each phase, Ready, then events. `publish` is called from that thread and from posters.

    As a context manager it starts on entry and stops on exit, ending what is still open.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        vocabulary: OutputVocabulary,
        build_program: BuildProgram,
        publish: Publish,
        log: Log | None = None,
        *,
        stats_interval_ms: int = 0,
    ) -> None:
        self._plan = plan
        self._vocabulary = vocabulary
        self._build_program = build_program
        self._publish = publish
        self._log = log
        self._stats_interval_seconds = stats_interval_ms / 1000
        self._succeeded = False
        self._engine: Engine | None = None
        self._start_error: BaseException | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ninfer-engine", daemon=True)

    def start(self) -> None:
        """Return when the engine is ready. Raises what the build raised."""
        self._thread.start()
        self._started.wait()
        if isinstance(self._start_error, NinferError):
            raise self._start_error
        if self._start_error is not None:
            raise StartFailed(f"the engine could not be built: {self._start_error}") from self._start_error

    def post(self, message: FrontMessage) -> None:
        """As Engine.post; only after `start`."""
        assert self._engine is not None, "the engine has not been started"
        self._engine.post(message)

    @property
    def ready(self) -> bool:
        """Whether `post` may be called."""
        return self._engine is not None

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> bool:
        """Until the engine has ended by itself or been shut down; whether it did its work to the end."""
        self._thread.join()
        return self._succeeded

    def stop(self, *, drain: bool = False, timeout_seconds: float | None = None) -> bool:
        """Shut down and wait for the thread; whether it has ended within the time."""
        if self._engine is not None:
            self._engine.post(Shutdown(drain=drain))
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def __enter__(self) -> InlineEngine:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            program = self._build_program(self._phase_done)
            engine = Engine(
                self._plan,
                program,
                self._vocabulary,
                self._publish,
                log=self._log,
                stats_interval_seconds=self._stats_interval_seconds,
            )
            self._engine = engine  # who hears that it is ready may post at once
            self._publish(Ready(plan_digest=self._plan.digest))
        except BaseException as error:
            self._engine, self._start_error = None, error
            return
        finally:
            self._started.set()
        self._succeeded = engine.run()

    def _phase_done(self, name: str, seconds: float) -> None:
        self._publish(PhaseDone(name=name, seconds=seconds))
