"""The engine: one thread that owns every request record and the program, in the order in which things are done.

Each boundary does, in this order: messages (cancels included) and waiting deadlines; at most one admission; the launch
of one unit of the program; publication of what the last choice made visible; and, as far as the next launch depends on
them, collecting units in flight, the choice of N for every row of theirs and the release of rows that ended. So output
is never seen before the choice that commits it, and while one boundary follows another the device has its next unit
before anything is published. A failure inside one request's session ends that request alone; any other failure ends
the engine, and every open request with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ninfer_core.api.errors import (
    RequestCancelled,
    RequestError,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.service import Admitted
from ninfer_core.engine.ahead import round_ahead
from ninfer_core.engine.inbox import Inbox, Refusal
from ninfer_core.engine.intake import Intake
from ninfer_core.engine.messages import Cancel, FrontMessage, Shutdown, Submit, failed, fatal
from ninfer_core.engine.open_requests import OpenRequests
from ninfer_core.engine.publication import Publication, Publish
from ninfer_core.engine.scheduler import DecodeRound, ScheduledUnit, Scheduler
from ninfer_core.engine.session import session_failure
from ninfer_core.engine.throughput import ThroughputMeter
from ninfer_core.engine.units import Units
from ninfer_core.program.contract import Program
from ninfer_core.telemetry import Log, create_log


class Engine:
    """Serves requests on `program` until told to stop. `clock` is the monotonic clock of the deadlines, in seconds.
    What it does is published every `stats_interval_seconds`, 0 for never."""

    def __init__(
        self,
        plan: ExecutionPlan,
        program: Program,
        vocabulary: OutputVocabulary,
        publish: Publish,
        clock: Callable[[], float] = time.monotonic,
        log: Log | None = None,
        stats_interval_seconds: float = 0.0,
    ) -> None:
        capacities = plan.capacities
        self._program = program
        self._publish = publish
        self._publication = Publication(publish)
        self._clock = clock
        self._intake = Intake(capacities, vocabulary)
        self._most_candidates = 1 + capacities.draft_tokens
        self._capacity = capacities.max_concurrency + capacities.max_pending_requests
        self._inbox = Inbox(self._capacity)
        self._scheduler = Scheduler(
            prefill_chunk=capacities.prefill_chunk,
            rows=capacities.max_concurrency,
            pages=capacities.kv_pages,
            page_tokens=capacities.page_tokens,
        )
        self._requests = OpenRequests(self._inbox, self._scheduler, program, self._publication)
        self._shutdown: Shutdown | None = None
        self._meter = ThroughputMeter(stats_interval_seconds, clock, publish)
        self._log = create_log() if log is None else log
        self._units = Units(
            program,
            self._scheduler,
            self._requests,
            self._publication,
            self._meter,
            clock,
            self._log,
            vocabulary.thinking_control_ids,
        )
        self._flight = self._units.flight

    def post(self, message: FrontMessage) -> None:
        """Hand a message over; thread-safe, never blocks on the device.

        A Submit that finds no place, or an engine that is ending, is answered at once with `server_overloaded` or
        `service_unavailable`. Raises ValueError for a request id that is in use.
        """
        match message:
            case Submit():
                refusal = self._inbox.submit(message)
                if refusal is Refusal.OVERLOADED:
                    self._publish(failed(message.request_id, ServerOverloaded(capacity=self._capacity)))
                elif refusal is Refusal.CLOSED:
                    self._publish(failed(message.request_id, ServiceUnavailable("it is shutting down")))
            case Cancel():
                self._inbox.cancel(message)
            case Shutdown():
                self._inbox.shut_down(message)

    def run(self) -> bool:
        """Work until a Shutdown is done with, then close the program. False when the engine had to give up, which
        has then been published as Fatal."""
        try:
            while self.step(wait=True):
                pass
        except Exception as error:
            self._give_up(error)
            return False
        finally:
            self._inbox.close()
            self._close_program()
        return True

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run; messages may have come that say otherwise."""
        return self._scheduler.idle

    def holds(self, request_id: int) -> bool:
        """Whether the request has a place in the line or a row."""
        return request_id in self._requests

    def step(self, *, wait: bool = False) -> bool:
        """One boundary. False once a Shutdown is done with.

        With `wait` the next step follows at once: it blocks for a message when there is nothing to do, takes messages
        while the device works, and publishes while the device has something to do.
        """
        block = wait and self._scheduler.idle and not self._flight
        messages = self._inbox.take(wait=block, timeout_seconds=self._meter.seconds_left)
        self._meter.begin_boundary()
        self._handle(messages)
        now = self._clock()
        for record in self._scheduler.expired(now):
            waited_ms = round((now - record.submit.received_monotonic) * 1000)
            self._requests.fail(record, RequestQueueTimeout(waited_ms=waited_ms))
        self._admit()
        if wait and self._program.goes_ahead:
            self._run_ahead()
        else:
            self._run_one_by_one(wait)
        self._meter.end_boundary(self._scheduler.standing())
        return self._shutdown is None or not self._scheduler.idle

    def _run_one_by_one(self, wait: bool) -> None:
        """What a unit yields decides on the next one."""
        while self._flight.due:  # what a step that went ahead has left
            self._units.collect()
        self._units.launch(self._scheduler.next_unit())
        self._publication.publish_visible()
        if wait:
            self._listen()
        while self._flight and (self._flight.due or self._scheduler.idle):
            self._units.collect()
        if not wait or self._scheduler.idle or not self._program.runs_ahead:
            self._publication.publish_visible()

    def _run_ahead(self) -> None:
        """Put the next unit behind the one that runs, where it does not depend on it; then wait for that one."""
        unit = self._next_ahead()
        if unit is not None or not self._flight:
            self._units.launch(unit)
        self._publication.publish_visible()
        kept = 0 if unit is None else 1
        while len(self._flight) > kept:
            self._units.collect()
        if self._flight or self._scheduler.idle:
            self._publication.publish_visible()
            self._listen()

    def _next_ahead(self) -> ScheduledUnit | None:
        """The next unit, unless what is in flight has to be known first."""
        if not all(unit.is_round for unit in self._flight.yielding):
            return None
        unit = self._scheduler.next_unit()
        if isinstance(unit, DecodeRound):
            return round_ahead(unit.records, self._flight.unseen, self._most_candidates)
        return unit

    # --- messages ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Take messages as long as the device is certainly busy."""
        until = self._flight.busy_until if self._program.runs_ahead else None
        while until is not None and self._shutdown is None and (left := until - self._clock()) > 0:
            messages = self._inbox.take(wait=True, timeout_seconds=left)
            if not messages:
                return
            self._handle(messages)

    def _handle(self, messages: list[FrontMessage]) -> None:
        self._publication.expect(message.request_id for message in messages if isinstance(message, Submit))
        for message in messages:
            self._receive(message)
        if self._shutdown is not None and not self._shutdown.drain:
            self._requests.fail_all(ServiceUnavailable("it is shutting down"))

    def _receive(self, message: FrontMessage) -> None:
        match message:
            case Submit():
                self._accept(message)
            case Cancel():
                record = self._requests.find(message.request_id)
                if record is not None:
                    self._requests.fail(record, RequestCancelled())
            case Shutdown():
                self._shutdown = message

    def _accept(self, submit: Submit) -> None:
        try:
            record = self._intake.record(submit)
        except RequestError as error:
            self._requests.refuse(submit.request_id, error)
        except Exception as error:
            self._log.error("session_failed", request_id=submit.request_id, exc_info=error)
            self._requests.refuse(submit.request_id, session_failure("started", error))
        else:
            self._requests.begin(record)

    def _admit(self) -> None:
        record = self._scheduler.admit(self._program.open_row)
        if record is not None:
            record.admitted_at = self._clock()
            self._publication.commit([(record, Admitted(prompt_tokens=record.prompt_tokens, cached_tokens=0))])

    # --- the end -----------------------------------------------------------------------------------

    def _give_up(self, error: Exception) -> None:
        """The state can no longer be trusted: end every open request, those still in the inbox included."""
        self._log.critical("engine_failed", exc_info=error)
        unavailable = ServiceUnavailable("it has failed; the server's log says why")
        self._publish_committed()
        self._inbox.close()
        submitted = [message.request_id for message in self._inbox.take(wait=False) if isinstance(message, Submit)]
        self._publication.give_up(submitted, unavailable)
        self._requests.forget()
        self._publish(fatal(error, "engine_failed"))

    def _publish_committed(self) -> None:
        """Before the end of everything, as far as that still works."""
        try:
            self._publication.publish_visible()
        except Exception as error:
            self._log.error("publication_failed", exc_info=error)

    def _close_program(self) -> None:
        """What the device says at the end shall not hide why it came to it."""
        try:
            self._program.close()
        except Exception as error:
            self._log.error("program_close_failed", exc_info=error)
