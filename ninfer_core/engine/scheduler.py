"""Which request is next and which unit runs next. Knows neither text nor the device; the clock comes in as an argument.

Admission is first in, first out, each request with its whole reservation (contract EXEC-8). A request at the head of
the line that does not fit holds it, with one exception: while it waits for the reservations that were active when it
came to a halt, its donors, a later request may start if the head still fits beside everything else once the last donor
has ended. So whatever overtakes it, the head starts no later than that, and no guess about time is involved.

Units: at most one prompt is in prefill. While rows are ready, every unit for a single row (a chunk of that prompt, or
the end of a row's thinking) is followed by a decode round, so a round waits for at most one of them. The end of
thinking goes before the chunk, and comes once in the life of a row, so a prompt waits for at most as many of them as
there are other rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.throughput import Standing
from ninfer_core.plan.memory import pages_for
from ninfer_core.program.contract import RowSetup

OpenRow = Callable[[RowSetup], int | None]


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The next `tokens` tokens of this record's prompt; `last` when they complete it."""

    record: RequestRecord
    tokens: int
    last: bool


@dataclass(frozen=True, slots=True)
class ControlCommit:
    """This record's thinking is to be closed."""

    record: RequestRecord


@dataclass(frozen=True, slots=True)
class DecodeRound:
    """All rows that are ready, and only those (contract EXEC-2)."""

    records: tuple[RequestRecord, ...]


ScheduledUnit = PrefillChunk | ControlCommit | DecodeRound


@dataclass(frozen=True, slots=True)
class _Blocked:
    """The head of the line that did not fit, and the active requests at that moment."""

    request_id: int
    donors: frozenset[int]


class Scheduler:
    """Holds every open request in exactly one of four places: waiting, staged, held for control, or ready.

    `rows` and `pages` are all that the program has; a reservation is one row and the pages of its tokens.
    """

    __slots__ = (
        "_blocked",
        "_held",
        "_page_tokens",
        "_pages",
        "_prefill_chunk",
        "_ready",
        "_rows",
        "_single_row_last",
        "_staged",
        "_waiting",
    )

    def __init__(self, *, prefill_chunk: int, rows: int, pages: int, page_tokens: int) -> None:
        self._prefill_chunk = prefill_chunk
        self._rows = rows
        self._pages = pages
        self._page_tokens = page_tokens
        self._waiting: deque[RequestRecord] = deque()
        self._staged: RequestRecord | None = None
        self._held: list[RequestRecord] = []
        self._ready: list[RequestRecord] = []
        self._blocked: _Blocked | None = None
        self._single_row_last = False

    @property
    def idle(self) -> bool:
        """Nothing to run and nothing waiting."""
        return not (self._waiting or self._active)

    @property
    def _active(self) -> list[RequestRecord]:
        """Every record that holds a reservation."""
        staged = [] if self._staged is None else [self._staged]
        return [*self._ready, *self._held, *staged]

    def enqueue(self, record: RequestRecord) -> None:
        self._waiting.append(record)

    def remove(self, record: RequestRecord) -> None:
        """Forget a record that has ended, wherever it is."""
        if record is self._staged:
            self._staged = None
        elif record.row is None:
            self._waiting.remove(record)
        else:
            (self._ready if record in self._ready else self._held).remove(record)

    def expired(self, now: float) -> list[RequestRecord]:
        """Waiting requests whose deadline has passed."""
        return [record for record in self._waiting if record.submit.deadline_monotonic <= now]

    # --- admission ---------------------------------------------------------------------------------

    def admit(self, open_row: OpenRow) -> RequestRecord | None:
        """Stage the head of the line, or a later request that may overtake it, if no prompt is staged and its whole
        reservation fits."""
        if self._staged is not None or not self._waiting:
            return None
        head = self._waiting[0]
        if self._open(head, open_row):
            return head
        active = self._active
        assert active, f"request {head.request_id} does not fit although no other holds a reservation"
        if self._blocked is None or self._blocked.request_id != head.request_id:
            self._blocked = _Blocked(head.request_id, frozenset(record.request_id for record in active))
        return self._backfill(head, self._blocked.donors, active, open_row)

    def _backfill(
        self, head: RequestRecord, donors: frozenset[int], active: list[RequestRecord], open_row: OpenRow
    ) -> RequestRecord | None:
        """The first later request that fits now, and leaves the head room beside all that are no donors. A row is
        never what the head lacks then: it gets the last donor's."""
        guests = [record for record in active if record.request_id not in donors]
        assert len(guests) < len(active), f"no donor is left, and request {head.request_id} does not fit"
        if len(active) == self._rows:
            return None
        free = self._pages - self._pages_of(active)
        spare = min(free, self._pages - self._pages_of([head, *guests]))
        for record in islice(self._waiting, 1, None):
            if self._pages_of([record]) <= spare and self._open(record, open_row):
                return record
        return None

    def _open(self, record: RequestRecord, open_row: OpenRow) -> bool:
        record.row = open_row(record.setup)
        if record.row is None:
            return False
        self._waiting.remove(record)
        self._staged = record
        return True

    def _pages_of(self, records: list[RequestRecord]) -> int:
        return sum(pages_for(record.setup.reserved_tokens, self._page_tokens) for record in records)

    # --- units -------------------------------------------------------------------------------------

    def next_unit(self) -> ScheduledUnit | None:
        """Whose turn it is; None when nothing has a row. The turn stays until something is `launched`."""
        single = None if self._ready and self._single_row_last else self._single_row_unit()
        if single is not None:
            return single
        return DecodeRound(tuple(self._ready)) if self._ready else None

    def launched(self, unit: ScheduledUnit) -> None:
        """It runs, so the other kind is next."""
        self._single_row_last = not isinstance(unit, DecodeRound)

    def _single_row_unit(self) -> PrefillChunk | ControlCommit | None:
        if self._held:
            return ControlCommit(self._held[0])
        staged = self._staged
        if staged is None:
            return None
        left = staged.prompt_tokens - staged.prefilled_tokens
        if not left:
            return None  # its last chunk is on the device
        tokens = min(left, self._prefill_chunk)
        return PrefillChunk(staged, tokens, tokens == left)

    def promote(self, record: RequestRecord) -> None:
        """The staged prompt is complete: its row decodes from now on."""
        assert record is self._staged, f"request {record.request_id} is not the staged one"
        self._staged = None
        self._ready.append(record)

    def hold_for_control(self, record: RequestRecord) -> None:
        """Keep a ready row out of rounds until its thinking has been closed."""
        self._ready.remove(record)
        self._held.append(record)

    def resume(self, record: RequestRecord) -> None:
        """Its thinking is closed: the row decodes again."""
        self._held.remove(record)
        self._ready.append(record)

    def standing(self) -> Standing:
        return Standing(
            prefilling=int(self._staged is not None),
            decode_ready=len(self._ready) + len(self._held),
            waiting=len(self._waiting),
        )

    def open_records(self) -> list[RequestRecord]:
        return [*self._active, *self._waiting]
