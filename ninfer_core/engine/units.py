"""Units of the program: given to the device as the scheduler has them, and what each has yielded told to the sessions
of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ninfer_core.api.errors import RequestError
from ninfer_core.api.service import Progress
from ninfer_core.engine.draft_counts import count_drafts
from ninfer_core.engine.flight import Flight, Launched
from ninfer_core.engine.open_requests import OpenRequests
from ninfer_core.engine.publication import Publication
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.scheduler import ControlCommit, DecodeRound, PrefillChunk, ScheduledUnit, Scheduler
from ninfer_core.engine.session import SessionStep, session_failure
from ninfer_core.engine.throughput import ThroughputMeter
from ninfer_core.program.contract import Program, RowRound
from ninfer_core.telemetry import Log


class Units:
    """Belongs to the engine's thread. `control_ids` are the tokens that close thinking."""

    def __init__(
        self,
        program: Program,
        scheduler: Scheduler,
        requests: OpenRequests,
        publication: Publication,
        meter: ThroughputMeter,
        clock: Callable[[], float],
        log: Log,
        control_ids: Sequence[int],
    ) -> None:
        self._program = program
        self._scheduler = scheduler
        self._requests = requests
        self._publication = publication
        self._meter = meter
        self._clock = clock
        self._log = log
        self._control_ids = control_ids
        self.flight = Flight(clock)

    def launch(self, unit: ScheduledUnit | None) -> None:
        """Give the device its next unit, if there is one."""
        if unit is None:
            self._meter.nothing_to_do()
            return
        self._scheduler.launched(unit)
        ahead = self._program.runs_ahead
        if ahead:
            self._meter.device_was_idle(self.flight.idle_seconds)
        else:
            self._meter.device_is_busy()
        match unit:
            case PrefillChunk() as chunk:
                self._launch_prefill(chunk)
            case ControlCommit() as commit:
                self._launch_control(commit)
            case DecodeRound(records):
                self._launch_decode(records)
        if ahead:
            self._meter.device_is_busy()
        else:
            self._meter.device_is_done()

    def _launch_decode(self, records: tuple[RequestRecord, ...]) -> None:
        unseen = self.flight.unseen
        rounds = [
            RowRound(row=_row(record), accepted=None if record.request_id in unseen else record.accepted)
            for record in records
        ]
        self.flight.add(Launched(self._program.launch_decode(rounds), records))

    def _launch_prefill(self, chunk: PrefillChunk) -> None:
        record, start = chunk.record, chunk.record.prefilled_tokens
        token_ids = record.submit.token_ids[start : start + chunk.tokens]
        unit = self._program.launch_prefill(_row(record), token_ids, chunk.last)
        record.prefilled_tokens += chunk.tokens
        self.flight.add(Launched(unit, (record,), record.prefilled_tokens, yields=chunk.last))
        self._meter.prefilled(chunk.tokens)

    def _launch_control(self, commit: ControlCommit) -> None:
        """Close the thinking of one row (docs/engine.md, "Thinking budget"); what it is told is known already."""
        record = commit.record
        unit = self._program.launch_control(RowRound(row=_row(record), accepted=record.accepted), self._control_ids)
        self.flight.add(Launched(unit, (record,), yields=False))
        self._scheduler.resume(record)
        self._commit([(record, self._guarded(record, lambda: record.session.force(self._control_ids)))])

    def collect(self) -> None:
        """Wait for the oldest unit in flight and commit what it yielded, except to requests that have ended since. What
        the one before it left to tell is told meanwhile."""
        self._publication.publish_visible()
        launched, candidates = self.flight.collect()
        if self._program.runs_ahead and not self.flight:
            self._meter.device_is_done()
        rows = [
            (record, row)
            for record, row in zip(launched.records, candidates, strict=True)
            if self._requests.is_open(record)
        ]
        if launched.processed_tokens:
            for record, row in rows:
                self._prefilled(record, launched, row)
        elif launched.yields:
            steps = [(record, self._choose(record, row)) for record, row in rows]
            tokens = sum(step.accepted for _, step in steps if isinstance(step, SessionStep))
            drafts = count_drafts(launched, candidates, steps)
            self._meter.decoded(rows=len(launched.records), tokens=tokens, drafts=drafts)
            self._commit(steps)

    def _prefilled(self, record: RequestRecord, launched: Launched, candidates: tuple[int, ...]) -> None:
        """A chunk is done; with the last one the row is ready to decode."""
        assert bool(candidates) == launched.yields, "exactly the last chunk of a prompt yields a candidate"
        seconds = self._clock() - record.admitted_at
        progress = Progress(processed_tokens=launched.processed_tokens, seconds=seconds)
        self._publication.commit([(record, progress)])
        if not launched.yields:
            return
        self._scheduler.promote(record)
        if record.limit == 0:
            record.committed(self._clock())
            self._requests.release(record)
            self._publication.commit([(record, record.limit_ending)])
        else:
            self._commit([(record, self._choose(record, candidates))])

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
                self._requests.release(record)
        self._publication.commit(steps)

    def _choose(self, record: RequestRecord, candidates: tuple[int, ...]) -> SessionStep | RequestError:
        assert candidates, f"the program yielded no candidate for request {record.request_id}"
        return self._guarded(record, lambda: record.session.push(candidates))

    def _guarded(self, record: RequestRecord, take: Callable[[], SessionStep]) -> SessionStep | RequestError:
        """What a session makes of its tokens; its failure is its own request's."""
        try:
            return take()
        except Exception as error:
            self._log.error("session_failed", request_id=record.request_id, exc_info=error)
            return session_failure("decoded", error)


def _row(record: RequestRecord) -> int:
    assert record.row is not None, f"request {record.request_id} has no row"
    return record.row
