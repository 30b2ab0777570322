"""Admission and the choice of units, on the scheduler alone."""

from __future__ import annotations

import pytest

from ninfer_core.engine.messages import Submit, pack_token_ids
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.scheduler import ControlCommit, DecodeRound, PrefillChunk, Scheduler
from ninfer_core.engine.session import Ending, OutputSession
from ninfer_core.program.contract import RowSetup
from ninfer_core.program.pages import PagePool
from ninfer_core.program.slots import SlotPool
from ninfer_core.testing.histories import sampling
from ninfer_core.testing.simulated_frontend import SimulatedDecoder

PAGE_TOKENS = 64


class Line:
    """A scheduler with pools behind it. Requests are named by letters and ask for whole pages."""

    def __init__(self, *, rows: int = 4, pages: int = 10, prefill_chunk: int = 128) -> None:
        self.scheduler = Scheduler(prefill_chunk=prefill_chunk, rows=rows, pages=pages, page_tokens=PAGE_TOKENS)
        self.records: dict[str, RequestRecord] = {}
        self._pages = PagePool(pages=pages, page_tokens=PAGE_TOKENS)
        self._slots = SlotPool(rows)
        self._held: dict[int, tuple[int, ...]] = {}

    def enqueue(self, name: str, pages: int, prompt_tokens: int = 1) -> RequestRecord:
        limit = pages * PAGE_TOKENS - prompt_tokens
        submit = Submit(
            request_id=len(self.records),
            prompt=pack_token_ids((1,) * prompt_tokens),
            initial_channel="content",
            sampling=sampling(0),
            max_output_tokens=limit,
            stop=(),
            stop_channels=(),
            received_monotonic=0.0,
            deadline_monotonic=1e9,
        )
        ending = Ending("output_limit")
        session = OutputSession(
            SimulatedDecoder("content"),
            stop_token_ids=frozenset(),
            stop=(),
            stop_channels=(),
            limit=limit,
            limit_ending=ending,
        )
        record = self.records[name] = RequestRecord(submit, limit, ending, session)
        self.scheduler.enqueue(record)
        return record

    def admit(self) -> str | None:
        """Admit one and take its prompt as done."""
        record = self.scheduler.admit(self._open)
        if record is None:
            return None
        self.scheduler.promote(record)
        return self.name(record)

    def end(self, name: str) -> None:
        record = self.records[name]
        self.scheduler.remove(record)
        if record.row is not None:
            self._pages.release(self._held.pop(record.row))
            self._slots.give_back(record.row)

    def name(self, record: RequestRecord) -> str:
        return next(name for name, each in self.records.items() if each is record)

    def _open(self, setup: RowSetup) -> int | None:
        slot = self._slots.take()
        pages = None if slot is None else self._pages.reserve(setup.reserved_tokens)
        if slot is not None and pages is None:
            self._slots.give_back(slot)
        if slot is None or pages is None:
            return None
        self._held[slot] = pages
        return slot


@pytest.mark.contract("EXEC-8")
def test_a_later_request_starts_where_the_head_fits_after_the_donors() -> None:
    line = Line(pages=10)
    line.enqueue("donor", 6)
    assert line.admit() == "donor"
    line.enqueue("head", 8)
    line.enqueue("large", 3)
    line.enqueue("small", 2)
    assert line.admit() == "small", "large would leave the head 7 pages of 8"
    line.enqueue("next", 1)
    assert line.admit() is None, "nothing is spare beside head and small"
    line.end("donor")
    assert line.admit() == "head"


def test_a_donor_stays_one_and_a_guest_is_none() -> None:
    line = Line(pages=10)
    for name in ("first", "second"):
        line.enqueue(name, 3)
        line.admit()
    line.enqueue("head", 9)
    line.enqueue("guest", 1)
    line.enqueue("other", 1)
    assert line.admit() == "guest"
    line.end("first")
    assert line.admit() is None, "guest would count twice if the head came to a halt anew"
    line.end("second")
    assert line.admit() == "head"
    assert line.admit() is None
    line.end("head")
    assert line.admit() == "other"


def test_another_head_has_donors_of_its_own() -> None:
    line = Line(pages=10)
    line.enqueue("donor", 6)
    line.admit()
    line.enqueue("head", 8)
    line.enqueue("guest", 2)
    line.enqueue("later", 8)
    line.enqueue("last", 1)
    assert line.admit() == "guest"
    line.end("head")
    assert line.admit() == "last", "guest is a donor of later's, which fits when donor and guest have ended"
    line.end("donor")
    assert line.admit() is None
    line.end("guest")
    assert line.admit() == "later"


def test_rows_run_out_for_everybody() -> None:
    line = Line(rows=2, pages=10)
    for name in ("first", "second"):
        line.enqueue(name, 1)
        line.admit()
    line.enqueue("head", 1)
    line.enqueue("later", 1)
    assert line.admit() is None
    line.end("second")
    assert line.admit() == "head"


def test_a_stream_of_small_requests_cannot_hold_the_head_for_longer_than_its_donors() -> None:
    line = Line(rows=8, pages=10)
    line.enqueue("donor", 4)
    line.admit()
    line.enqueue("head", 7)
    running: list[str] = []
    for number in range(29):
        line.enqueue(f"small {number}", 1)
        while (name := line.admit()) is not None:
            running.append(name)
        if number % 3 == 2 and running:
            line.end(running.pop(0))
    assert len(running) == 3, "as many as leave the head its 7 pages"
    line.end("donor")
    assert line.admit() == "head"


def test_units_of_one_row_take_turns_with_rounds() -> None:
    line = Line(prefill_chunk=128)
    for name in ("first", "second"):
        line.enqueue(name, 1)
        line.admit()
    scheduler = line.scheduler
    line.enqueue("long", 8, prompt_tokens=300)
    staged = scheduler.admit(line._open)
    assert staged is line.records["long"]
    scheduler.hold_for_control(line.records["second"])
    seen = []
    while staged.prefilled_tokens < 300:
        unit = scheduler.next_unit()
        assert unit is not None and scheduler.next_unit() == unit, "asking takes no turn"
        scheduler.launched(unit)
        match unit:
            case PrefillChunk(record=record, tokens=tokens):
                assert record is staged
                record.prefilled_tokens += tokens
                seen.append(tokens)
            case ControlCommit(record=record):
                scheduler.resume(record)
                seen.append("control")
            case DecodeRound(records=records):
                seen.append([line.name(record) for record in records])
    assert seen == ["control", ["first", "second"], 128, ["first", "second"], 128, ["first", "second"], 44]


def test_without_ready_rows_chunks_follow_each_other() -> None:
    line = Line(prefill_chunk=128)
    line.enqueue("long", 8, prompt_tokens=300)
    staged = line.scheduler.admit(line._open)
    assert staged is not None
    for _ in range(3):
        unit = line.scheduler.next_unit()
        assert isinstance(unit, PrefillChunk)
        line.scheduler.launched(unit)
        staged.prefilled_tokens += unit.tokens
    assert unit.last and staged.prefilled_tokens == 300


def test_a_held_row_that_ends_is_forgotten() -> None:
    line = Line()
    line.enqueue("only", 1)
    line.admit()
    line.scheduler.hold_for_control(line.records["only"])
    line.end("only")
    assert line.scheduler.idle
    assert line.scheduler.next_unit() is None
