"""The engine: one thread that owns every request record and the program.

Each boundary does, in this order: messages (cancels included) and waiting deadlines; at most one admission; one
unit of the program; the choice of N for every row of it; release of rows that ended; publication. So output is
never seen before the choice that commits it. A failure inside one request's session ends that request alone;
any other failure ends the engine, and every open request with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from ninfer_core.api.errors import (
    ContextLengthExceeded,
    GenerationFailed,
    InvalidPrompt,
    NinferError,
    RequestCancelled,
    RequestError,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.service import Admitted, Finished, GenerationEvent, Progress
from ninfer_core.engine.inbox import Inbox, Refusal
from ninfer_core.engine.messages import Cancel, EngineMessage, Event, Fatal, FrontMessage, Shutdown, Submit, failed
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.scheduler import ControlCommit, DecodeRound, PrefillChunk, Scheduler
from ninfer_core.engine.session import Ending, OutputSession, SessionStep
from ninfer_core.engine.thinking_budget import check_thinking_budget
from ninfer_core.engine.throughput import ThroughputMeter
from ninfer_core.program.contract import Program, RowRound
from ninfer_core.telemetry import Log, create_log

Publish = Callable[[EngineMessage], None]
"""Takes one message; called from the engine thread and, for refusals, from whichever thread posts."""


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
        self._vocabulary = vocabulary
        self._publish = publish
        self._clock = clock
        self._max_context = capacities.max_context
        self._pool_tokens = capacities.kv_pages * capacities.page_tokens
        self._stop_token_ids = frozenset(vocabulary.stop_token_ids)
        self._control_ids = vocabulary.thinking_control_ids
        self._capacity = capacities.max_concurrency + capacities.max_pending_requests
        self._inbox = Inbox(self._capacity)
        self._scheduler = Scheduler(
            prefill_chunk=capacities.prefill_chunk,
            rows=capacities.max_concurrency,
            pages=capacities.kv_pages,
            page_tokens=capacities.page_tokens,
        )
        self._records: dict[int, RequestRecord] = {}
        self._unanswered: dict[int, None] = {}
        """Every request that was taken in and whose last message has not been published, in the order they came."""
        self._shutdown: Shutdown | None = None
        self._meter = ThroughputMeter(stats_interval_seconds, clock, publish)
        self._log = create_log() if log is None else log

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

    def step(self, *, wait: bool = False) -> bool:
        """One boundary. False once a Shutdown is done with. `wait` blocks for a message when there is nothing to do."""
        messages = self._inbox.take(wait=wait and self._scheduler.idle, timeout_seconds=self._meter.seconds_left)
        begin = self._meter.begin_boundary()
        self._unanswered.update((message.request_id, None) for message in messages if isinstance(message, Submit))
        for message in messages:
            self._receive(message)
        if self._shutdown is not None and not self._shutdown.drain:
            self._end_all(ServiceUnavailable("it is shutting down"))
        now = self._clock()
        for record in self._scheduler.expired(now):
            waited_ms = round((now - record.submit.received_monotonic) * 1000)
            self._end(record, failed(record.request_id, RequestQueueTimeout(waited_ms=waited_ms)))
        self._admit()
        match self._scheduler.next_unit():
            case PrefillChunk() as chunk:
                self._prefill(chunk)
            case ControlCommit() as commit:
                self._control(commit)
            case DecodeRound() as decode_round:
                self._decode(decode_round)
        self._meter.end_boundary(begin, self._scheduler.standing())
        return self._shutdown is None or not self._scheduler.idle

    # --- messages ----------------------------------------------------------------------------------

    def _receive(self, message: FrontMessage) -> None:
        match message:
            case Submit():
                self._accept(message)
            case Cancel():
                record = self._records.get(message.request_id)
                if record is not None:
                    self._end(record, failed(record.request_id, RequestCancelled()))
            case Shutdown():
                self._shutdown = message

    def _accept(self, submit: Submit) -> None:
        try:
            record = self._record(submit)
        except RequestError as error:
            self._refuse(submit, error)
        except Exception as error:
            self._log.error("session_failed", request_id=submit.request_id, exc_info=error)
            self._refuse(submit, _session_failure("started", error))
        else:
            self._records[submit.request_id] = record
            self._scheduler.enqueue(record)

    def _record(self, submit: Submit) -> RequestRecord:
        """Check the request against the plan before anything is touched, and give it its session."""
        prompt_tokens = len(submit.token_ids)
        if prompt_tokens > self._max_context:
            raise ContextLengthExceeded(prompt_tokens=prompt_tokens, max_context=self._max_context)
        if prompt_tokens == 0:
            raise InvalidPrompt("the prompt has no tokens; send at least one message", param="messages")
        assert submit.max_output_tokens >= 0, "an answer of less than nothing would take another request's pages"
        room = self._max_context - prompt_tokens
        limit = min(submit.max_output_tokens, room)
        if prompt_tokens + limit > self._pool_tokens:
            raise RequestError(
                f"prompt and output need {prompt_tokens} + {limit} tokens and the whole KV pool holds "
                f"{self._pool_tokens}; ask for less output or start the server with a larger --kv-capacity",
                code=ContextLengthExceeded.code,
                param="messages",
            )
        budget = submit.thinking_budget if submit.initial_channel == "reasoning" else None
        if budget is not None:
            check_thinking_budget(budget, control_tokens=len(self._control_ids), limit=limit)
        ending = Ending("context_capacity" if room < submit.max_output_tokens else "output_limit")
        session = OutputSession(
            self._vocabulary.output_format.decoder(self._vocabulary.token_bytes, submit.initial_channel),
            stop_token_ids=self._stop_token_ids,
            stop=submit.stop,
            stop_channels=submit.stop_channels,
            limit=limit,
            limit_ending=ending,
            thinking_budget=budget,
        )
        return RequestRecord(submit, limit, ending, session)

    def _refuse(self, submit: Submit, error: RequestError) -> None:
        self._inbox.release(submit.request_id)
        self._publish_last(submit.request_id, failed(submit.request_id, error))

    # --- units -------------------------------------------------------------------------------------

    def _admit(self) -> None:
        record = self._scheduler.admit(self._program.open_row)
        if record is not None:
            record.admitted_at = self._clock()
            self._event(record, Admitted(prompt_tokens=record.prompt_tokens, cached_tokens=0))

    def _prefill(self, chunk: PrefillChunk) -> None:
        record = chunk.record
        assert record.row is not None
        start = record.prefilled_tokens
        token_ids = record.submit.token_ids[start : start + chunk.tokens]
        with self._meter.unit():
            candidate = self._program.prefill(record.row, token_ids, chunk.last)
        self._meter.prefilled(chunk.tokens)
        record.prefilled_tokens += chunk.tokens
        assert (candidate is not None) == chunk.last, "exactly the last chunk of a prompt yields a candidate"
        done = Progress(processed_tokens=record.prefilled_tokens, seconds=self._clock() - record.admitted_at)
        self._event(record, done)
        if candidate is None:
            return
        self._scheduler.promote(record)
        if record.limit == 0:
            record.committed(self._clock())
            self._end(record, self._finished(record, record.limit_ending))
        else:
            self._commit([(record, self._choose(record, (candidate,)))])

    def _decode(self, decode_round: DecodeRound) -> None:
        records = decode_round.records
        rounds = [RowRound(row=_row(record), accepted=record.accepted) for record in records]
        with self._meter.unit():
            candidates = self._program.decode(rounds)
        steps = [(record, self._choose(record, row)) for record, row in zip(records, candidates, strict=True)]
        tokens = sum(step.accepted for _, step in steps if isinstance(step, SessionStep))
        self._meter.decoded(rows=len(records), tokens=tokens)
        self._commit(steps)

    def _control(self, commit: ControlCommit) -> None:
        """Close the thinking of one row (engine.md section 13)."""
        record = commit.record
        with self._meter.unit():
            self._program.control(RowRound(row=_row(record), accepted=record.accepted), self._control_ids)
        self._scheduler.resume(record)
        self._commit([(record, self._guarded(record, lambda: record.session.force(self._control_ids)))])

    def _commit(self, steps: list[tuple[RequestRecord, SessionStep | RequestError]]) -> None:
        """Fix N for every row, release the rows that ended, and only then let anything be seen."""
        now = self._clock()
        for record, step in steps:
            if isinstance(step, SessionStep):
                record.accepted = step.accepted
                record.committed(now)
                if step.control:
                    self._scheduler.hold_for_control(record)
            if not isinstance(step, SessionStep) or step.ending is not None:
                self._release(record)
        for record, step in steps:
            if not isinstance(step, SessionStep):
                self._publish_last(record.request_id, failed(record.request_id, step))
                continue
            for delta in step.deltas:
                self._event(record, msgspec.structs.replace(delta, live=record.live_timings()))
            if step.ending is not None:
                self._publish_last(record.request_id, self._finished(record, step.ending))

    def _choose(self, record: RequestRecord, candidates: tuple[int, ...]) -> SessionStep | RequestError:
        assert candidates, f"the program yielded no candidate for request {record.request_id}"
        return self._guarded(record, lambda: record.session.push(candidates))

    def _guarded(self, record: RequestRecord, take: Callable[[], SessionStep]) -> SessionStep | RequestError:
        """What a session makes of its tokens; its failure is its own request's."""
        try:
            return take()
        except Exception as error:
            self._log.error("session_failed", request_id=record.request_id, exc_info=error)
            return _session_failure("decoded", error)

    # --- endings -----------------------------------------------------------------------------------

    def _end(self, record: RequestRecord, last_message: EngineMessage) -> None:
        self._release(record)
        self._publish_last(record.request_id, last_message)

    def _publish_last(self, request_id: int, message: EngineMessage) -> None:
        self._publish(message)
        del self._unanswered[request_id]

    def _release(self, record: RequestRecord) -> None:
        """Give back everything the request holds, before its last message says that it has ended."""
        self._scheduler.remove(record)
        del self._records[record.request_id]
        if record.row is not None:
            self._program.close_row(record.row)
            record.row = None
        self._inbox.release(record.request_id)

    def _end_all(self, error: RequestError) -> None:
        for record in self._scheduler.open_records():
            self._end(record, failed(record.request_id, error))

    def _give_up(self, error: Exception) -> None:
        """The state can no longer be trusted: end every open request, those still in the inbox included."""
        self._log.critical("engine_failed", exc_info=error)
        code = error.code if isinstance(error, NinferError) else "engine_failed"
        unavailable = ServiceUnavailable("it has failed; the server's log says why")
        self._inbox.close()
        submitted = [message.request_id for message in self._inbox.take(wait=False) if isinstance(message, Submit)]
        for request_id in [*self._unanswered, *submitted]:
            self._publish(failed(request_id, unavailable))
        self._records.clear()
        self._unanswered.clear()
        text = f"{type(error).__name__}: {error}"
        self._publish(Fatal(code=code, message=text.encode(errors="backslashreplace").decode()))

    def _close_program(self) -> None:
        """What the device says at the end shall not hide why it came to it."""
        try:
            self._program.close()
        except Exception as error:
            self._log.error("program_close_failed", exc_info=error)

    def _finished(self, record: RequestRecord, ending: Ending) -> Event:
        return _event(
            record,
            Finished(
                reason=ending.reason,
                stop_string=ending.stop_string,
                usage=record.usage(),
                timings=record.timings(),
            ),
        )

    def _event(self, record: RequestRecord, event: GenerationEvent) -> None:
        self._publish(_event(record, event))


def _row(record: RequestRecord) -> int:
    assert record.row is not None, f"request {record.request_id} has no row"
    return record.row


def _event(record: RequestRecord, event: GenerationEvent) -> Event:
    return Event(request_id=record.request_id, event=event)


def _session_failure(undone: str, error: Exception) -> GenerationFailed:
    """The exception's own text stays out: it may quote what the model wrote."""
    return GenerationFailed(f"the answer could not be {undone} ({type(error).__name__}); the server's log says where")
