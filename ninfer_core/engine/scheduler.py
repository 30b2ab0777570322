"""Which request is next and which unit runs next. Knows neither pages nor text; the clock comes in as an argument.

Order is first in, first out: a request that does not fit holds the line behind it (contract EXEC-8). At most one
prompt is in prefill, and while rows are ready to decode every prefill chunk is followed by a decode round, so
neither starves the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ninfer_core.engine.program import RowSetup
from ninfer_core.engine.records import RequestRecord


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The next `tokens` tokens of this record's prompt; `last` when they complete it."""

    record: RequestRecord
    tokens: int
    last: bool


@dataclass(frozen=True, slots=True)
class DecodeRound:
    """All rows that are ready, and only those (contract EXEC-2)."""

    records: tuple[RequestRecord, ...]


class Scheduler:
    """Holds every open request in exactly one of three places: waiting, staged or ready."""

    __slots__ = ("_prefill_chunk", "_prefilled_last", "_ready", "_staged", "_waiting")

    def __init__(self, *, prefill_chunk: int) -> None:
        self._prefill_chunk = prefill_chunk
        self._waiting: deque[RequestRecord] = deque()
        self._staged: RequestRecord | None = None
        self._ready: list[RequestRecord] = []
        self._prefilled_last = False

    @property
    def idle(self) -> bool:
        """Nothing to run and nothing waiting."""
        return not (self._waiting or self._active)

    @property
    def _active(self) -> bool:
        return self._staged is not None or bool(self._ready)

    def enqueue(self, record: RequestRecord) -> None:
        self._waiting.append(record)

    def remove(self, record: RequestRecord) -> None:
        """Forget a record that has ended, wherever it is."""
        if record is self._staged:
            self._staged = None
        elif record in self._ready:
            self._ready.remove(record)
        else:
            self._waiting.remove(record)

    def expired(self, now: float) -> list[RequestRecord]:
        """Waiting requests whose deadline has passed."""
        return [record for record in self._waiting if record.submit.deadline_monotonic <= now]

    def admit(self, open_row: Callable[[RowSetup], int | None]) -> RequestRecord | None:
        """Stage the head of the line if no prompt is staged and its whole reservation fits."""
        if self._staged is not None or not self._waiting:
            return None
        head = self._waiting[0]
        head.row = open_row(head.setup)
        if head.row is None:
            assert self._active, f"request {head.request_id} does not fit although no other holds a reservation"
            return None
        self._staged = self._waiting.popleft()
        return head

    def next_unit(self) -> PrefillChunk | DecodeRound | None:
        """The unit to run now; None when nothing has a row."""
        staged = self._staged
        if staged is None or (self._ready and self._prefilled_last):
            self._prefilled_last = False
            return DecodeRound(tuple(self._ready)) if self._ready else None
        self._prefilled_last = True
        left = staged.prompt_tokens - staged.prefilled_tokens
        tokens = min(left, self._prefill_chunk)
        return PrefillChunk(staged, tokens, tokens == left)

    def promote(self, record: RequestRecord) -> None:
        """The staged prompt is complete: its row decodes from now on."""
        assert record is self._staged, f"request {record.request_id} is not the staged one"
        self._staged = None
        self._ready.append(record)

    def open_records(self) -> list[RequestRecord]:
        staged = [] if self._staged is None else [self._staged]
        return [*self._ready, *staged, *self._waiting]
