"""The device and the engine's thread work side by side: what is launched when, and what waits for what."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ninfer_core.api.service import Admitted, Finished, Progress, TextDelta
from ninfer_core.engine.engine import Engine
from ninfer_core.engine.flight import Flight, Launched
from ninfer_core.engine.messages import EngineMessage, Event, Shutdown, Submit, pack_token_ids
from ninfer_core.program.contract import Candidates, RowRound, Unit
from ninfer_core.testing.histories import Bench, Clock, sampling
from ninfer_core.testing.simulated_frontend import SimulatedFrontend, answer_token
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

PLAIN_SEED = next(seed for seed in range(1000) if all(answer_token(seed, place) < 128 for place in range(6)))
"""Of an answer whose tokens are a letter each."""


class Diary:
    """Who did what, in order: `launch` and `collect` with the kind of the unit, `tell` with the kind of the event."""

    def __init__(self, *, ahead: bool, **capacities: int) -> None:
        self.lines: list[tuple[str, str]] = []
        plan = simulated_plan(**capacities)
        program = simulated_program(plan)
        program.goes_ahead = ahead
        self.bench = Bench(plan, program)
        self._watch(program)
        publish = self.bench.engine._publication._publish

        def tell(message: EngineMessage) -> None:
            if isinstance(message, Event):
                self.lines.append(("tell", type(message.event).__name__))
            publish(message)

        self.bench.engine._publication._publish = tell

    def _watch(self, program: SimulatedProgram) -> None:
        for kind in ("prefill", "decode", "control"):
            setattr(program, f"launch_{kind}", self._watched(kind, getattr(program, f"launch_{kind}")))

    def _watched(self, kind: str, launch: Callable[..., Unit]) -> Callable[..., Unit]:
        def watched(*arguments: Any) -> Unit:
            self.lines.append(("launch", kind))
            collect = launch(*arguments)

            def collected() -> Candidates:
                self.lines.append(("collect", kind))
                return collect()

            return Unit(collected)

        return watched

    def step(self, count: int = 1) -> None:
        """Boundaries of an engine that runs; there is something to do at each."""
        for _ in range(count):
            self.bench.engine.step(wait=True)

    def units(self) -> list[tuple[str, str]]:
        return [line for line in self.lines if line[0] != "tell"]


@pytest.mark.parametrize("ahead", [False, True])
def test_the_device_has_its_next_unit_before_anything_is_told(ahead: bool) -> None:
    diary = Diary(ahead=ahead)
    diary.bench.submit(prompt_tokens=10, max_output_tokens=6, seed=PLAIN_SEED)
    while not diary.bench.observer.last:
        diary.step()
    kinds = [line for line in diary.lines if line != ("tell", "Progress")]
    first = [("launch", "prefill"), ("tell", "Admitted"), ("collect", "prefill"), ("launch", "decode")]
    round_of_its_turn = [("tell", "TextDelta"), ("collect", "decode"), ("launch", "decode")]
    last = [("tell", "TextDelta"), ("collect", "decode"), ("tell", "TextDelta"), ("tell", "Finished")]
    if ahead:  # each round is put behind the one that runs, and none behind the one that is certainly the last
        round_of_its_turn = [("tell", "TextDelta"), ("launch", "decode"), ("collect", "decode")]
    assert kinds == [*first, *(4 * round_of_its_turn), *last]


LONG_SEED = next(seed for seed in range(10_000) if all(answer_token(seed, place) < 128 for place in range(30)))


def in_flight_at_collects(units: list[tuple[str, str]]) -> list[int]:
    """How many units were in flight whenever a round was collected."""
    found, flying = [], 0
    for what, kind in units:
        if what == "collect" and kind == "decode":
            found.append(flying)
        flying += 1 if what == "launch" else -1
    return found


def test_a_round_with_drafts_has_the_next_one_behind_it() -> None:
    """Whatever it yields; but for the last ones of an answer, which a round may end."""
    diary = Diary(ahead=True, draft_tokens=3)
    diary.bench.submit(prompt_tokens=10, max_output_tokens=30, seed=LONG_SEED)
    while not diary.bench.observer.last:
        diary.step()
    diary.bench.check_text(0)
    flying = in_flight_at_collects(diary.units())
    assert len(flying) > 5 and set(flying[:-2]) == {2}
    assert diary.bench.program.ahead["took_many"] > 3


def test_nothing_is_put_behind_a_round_that_may_spend_a_thinking_budget() -> None:
    """Three drafts: the round behind that with the 20th token would have to begin with what closes thinking."""
    diary = Diary(ahead=True, draft_tokens=3)
    diary.bench.submit(prompt_tokens=10, max_output_tokens=60, seed=LONG_SEED, channel="reasoning", thinking_budget=20)
    while not diary.bench.observer.last:
        diary.step()
    diary.bench.check_text(0)
    units = diary.units()
    rounds_before = units[: units.index(("launch", "control"))].count(("collect", "decode"))
    flying = in_flight_at_collects(units)
    before, behind = flying[:rounds_before], flying[rounds_before:]
    assert before[0] == 2 and before[-1] == 1
    assert set(behind[1:-2]) == {2}, "and it goes ahead again, although the budget is spent"


def sizes_of_rounds(draft_tokens: int, others: int) -> tuple[list[int], list[int], Diary]:
    """Of a row that thinks up to its budget and `others`, which only write: how many rows each round has, and how many
    units are in flight as it is collected, while that row can be heard to think."""
    diary = Diary(ahead=True, draft_tokens=draft_tokens, max_concurrency=1 + others, kv_pages=4 * (1 + others))
    for _ in range(others):
        diary.bench.submit(prompt_tokens=10, max_output_tokens=200, seed=LONG_SEED)
    diary.step(2 * others)
    diary.bench.submit(prompt_tokens=10, max_output_tokens=60, seed=LONG_SEED, channel="reasoning", thinking_budget=20)
    while ("launch", "control") not in diary.lines:
        diary.step()
    flying = in_flight_at_collects(diary.units())
    while len(diary.bench.observer.last) <= others:
        diary.step()
    for request_id in range(1 + others):
        diary.bench.check_text(request_id)
    return diary.bench.program.round_sizes[: len(flying) + 1], flying, diary


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_rows_that_do_not_think_go_ahead_of_one_that_may_be_done(draft_tokens: int) -> None:
    """It waits for its own round alone, and is in the one after that."""
    sizes, flying, diary = sizes_of_rounds(draft_tokens, others=3)
    begun = sizes.index(4)
    assert set(flying[begun:-1]) == {2}, "the device has its next round throughout"
    assert 3 in sizes[begun:] and diary.bench.program.ahead["waited"] > 0
    assert all(pair != (3, 3) for pair in itertools.pairwise(sizes[begun:]))


def test_a_round_of_few_is_not_worth_missing_for_as_many() -> None:
    """One of two rows that goes on alone would cost the other one a whole round of its own."""
    sizes, flying, diary = sizes_of_rounds(3, others=1)
    begun = sizes.index(2)
    assert set(sizes[begun:]) == {2} and 1 in flying[begun:]
    assert diary.bench.program.ahead["waited"] == 0


def test_a_chunk_and_the_round_behind_it_are_in_line_together() -> None:
    diary = Diary(ahead=False, max_context=1024, kv_pages=32)
    diary.bench.submit(prompt_tokens=10, max_output_tokens=60, seed=2)
    diary.step(2)
    diary.bench.submit(prompt_tokens=500, max_output_tokens=1)
    diary.step()
    del diary.lines[:]
    diary.step(4)
    chunk_and_round = [("launch", "prefill"), ("launch", "decode"), ("collect", "prefill"), ("collect", "decode")]
    assert diary.units() in (2 * chunk_and_round, [*chunk_and_round[1:], *chunk_and_round, chunk_and_round[0]])


class SlowProgram(SimulatedProgram):
    """Rounds that take a while, as on a device: launching returns at once."""

    seconds = 0.05

    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        collect, until = super().launch_decode(rows), time.monotonic() + self.seconds

        def collected() -> Candidates:
            time.sleep(max(0.0, until - time.monotonic()))
            return collect()

        return Unit(collected)


def test_messages_are_taken_while_the_device_works() -> None:
    """A request that comes in early in a round is admitted in time for the next unit, and a round costs the device
    nothing of the engine's time."""
    plan = simulated_plan()
    plain = simulated_program(plan)
    program = SlowProgram(pages=plain.pages, slots=plain.slots)
    told: list[tuple[float, EngineMessage]] = []
    engine = Engine(plan, program, SimulatedFrontend(), lambda message: told.append((time.monotonic(), message)))
    thread = threading.Thread(target=engine.run)

    def submit(request_id: int) -> float:
        now = time.monotonic()
        engine.post(
            Submit(
                request_id=request_id,
                prompt=pack_token_ids([65] * 4),
                initial_channel="content",
                sampling=sampling(2),
                max_output_tokens=12,
                stop=(),
                stop_channels=(),
                received_monotonic=now,
                deadline_monotonic=now + 60,
            )
        )
        return now

    submit(0)
    thread.start()
    while sum(isinstance(event_of(each), TextDelta) for _, each in told) < 3:
        time.sleep(0.001)
    time.sleep(0.01)
    posted = submit(1)
    while sum(isinstance(event_of(each), Finished) for _, each in told) < 2:
        time.sleep(0.005)
    engine.post(Shutdown(drain=True))
    thread.join()
    admitted = next(at for at, each in told if isinstance(event_of(each), Admitted) and each.request_id == 1)  # type: ignore[union-attr]
    assert admitted - posted < 1.6 * SlowProgram.seconds, "it waited for a round that began after it had come"
    assert any(isinstance(event_of(each), Progress) for _, each in told)


def event_of(message: EngineMessage) -> object:
    return message.event if isinstance(message, Event) else None


def test_a_launch_that_comes_too_late_is_seen() -> None:
    """The first round took a second, so the second is busy for 0.8 of one; that it has ended since shows."""
    clock, done = Clock(), [False]
    flight = Flight(clock)
    for _ in range(2):
        flight.add(Launched(Unit(lambda: ((1,),), lambda: done[0]), ()))
        if len(flight) == 1 and flight.busy_until is None:
            clock.now += 1.0
            flight.collect()
    clock.now += 2.0
    assert flight.idle_seconds == 0.0
    done[0] = True
    assert flight.idle_seconds == pytest.approx(1.2)


class TimedUnits:
    """Rounds on a device that a clock is set forward for: each is done `seconds` after the one before it."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.flight = Flight(clock)
        self._end = clock.now

    def launch(self) -> None:
        end = self._end = max(self._end, self.clock.now) + self.seconds

        def collect() -> Candidates:
            self.clock.now = max(self.clock.now, end)
            return ((1,),)

        self.flight.add(Launched(Unit(collect, lambda: self.clock.now >= end), ()))

    @property
    def busy_seconds(self) -> float | None:
        """How long from now on messages would be taken, and whether the device is busy that long."""
        until = self.flight.busy_until
        assert until is None or until <= self._end, "the device would stand still meanwhile"
        return None if until is None else until - self.clock.now


def test_one_late_look_does_not_make_all_rounds_look_short() -> None:
    """The engine was held up for three rounds: what it then finds done at once has not been done in no time."""
    units = TimedUnits(Clock(), 1.0)
    units.launch()
    for _ in range(2):
        units.launch()
        units.flight.collect()
    assert units.busy_seconds == pytest.approx(0.8)
    units.clock.now += 3.0
    units.launch()  # behind one that has been done for two seconds
    units.flight.collect()
    assert units.busy_seconds is None, "when the one in flight began cannot be said from here"
    units.launch()
    units.flight.collect()
    assert units.busy_seconds == pytest.approx(0.8), "that one has been waited for"


def test_a_device_that_is_done_before_the_engine_looks_is_seen_to_wait_each_time() -> None:
    units = TimedUnits(Clock(), 1.0)
    units.launch()
    units.flight.collect()
    idle = 0.0
    units.launch()
    for _ in range(5):
        units.clock.now += 4.0  # of the engine's own work
        idle += units.flight.idle_seconds
        units.launch()
        units.flight.collect()
    assert idle == pytest.approx(3.2 + 4 * 4.0), "at most; the device stood still for 15 seconds"


def test_a_program_that_does_not_run_ahead_keeps_nobody_waiting() -> None:
    """Its launch is the whole unit: what was committed is told before it."""
    diary = Diary(ahead=False)
    diary.bench.program.runs_ahead = False
    diary.bench.submit(prompt_tokens=10, max_output_tokens=3, seed=PLAIN_SEED)
    while not diary.bench.observer.last:
        diary.step()
    told = [place for place, line in enumerate(diary.lines) if line == ("tell", "TextDelta")]
    launched = [place for place, line in enumerate(diary.lines) if line == ("launch", "decode")]
    assert told[0] < launched[0] < told[1] < launched[1]
