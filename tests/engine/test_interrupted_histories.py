"""Random histories in which things come while the device works, and while the engine tells what it has found: with a
round in flight, behind which another one may have been put."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api.service import TextDelta
from ninfer_core.engine.messages import EngineMessage, Event, Failed, Shutdown
from ninfer_core.program.contract import Candidates, Unit
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.random_histories import (
    check_history,
    play,
    random_actions,
    random_machine,
    random_submit,
)
from ninfer_core.testing.simulated_frontend import SimulatedDecoder
from ninfer_core.testing.simulated_program import SimulatedProgram

MOST_INTERRUPTIONS = 30
BROKEN_TOKEN = 0xFF
LAUNCHES = ("launch_prefill", "launch_decode", "launch_control")


def ahead_bench(draw: random.Random) -> Bench[SimulatedProgram]:
    bench = random_machine(draw).bench()
    bench.ahead = True
    return bench


def around_units(program: SimulatedProgram, launching: Callable[[], None], collecting: Callable[[], None]) -> None:
    """Have the program call these whenever a unit is launched, and whenever one is waited for."""

    def watched(launch: Callable[..., Unit]) -> Callable[..., Unit]:
        def launched(*arguments: Any) -> Unit:
            launching()
            unit = launch(*arguments)

            def collect() -> Candidates:
                collecting()
                return unit.collect()

            return Unit(collect, drafted=unit.drafted)

        return launched

    for name in LAUNCHES:
        setattr(program, name, watched(getattr(program, name)))


class Interruptions:
    """Submits, cancels and time that passes, from wherever they are asked for; `seen` counts them."""

    def __init__(self, bench: Bench[SimulatedProgram], draw: random.Random) -> None:
        self.bench = bench
        self.draw = draw
        self.seen: Counter[str] = Counter()
        around_units(bench.program, lambda: self.come("launch"), lambda: self.come("collect"))
        publish = bench.engine._publication._publish

        def published(message: EngineMessage) -> None:
            publish(message)
            if isinstance(message, Event) and isinstance(message.event, TextDelta) and draw.random() < 0.05:
                self.seen["cancel at text"] += 1  # of a client that has read enough
                bench.cancel(message.request_id)

        bench.engine._publication._publish = published

    def come(self, where: str) -> None:
        if where == "collect":
            self.bench.clock.now += self.draw.choice((0.0, 1e-5, 1e-4))
        if self.draw.random() > 0.15 or sum(self.seen.values()) >= MOST_INTERRUPTIONS:
            return
        what = self.draw.choice(("submit", "cancel"))
        self.seen[f"{what} at {where}"] += 1
        if what == "submit":
            self.bench.submit(**random_submit(self.draw))
        else:
            self.bench.cancel(self.draw.randrange(len(self.bench.submitted)))


def test_what_comes_while_the_device_works_changes_no_other_text() -> None:
    seen: Counter[str] = Counter()
    for seed in range(120):
        draw = random.Random(f"interrupted {seed}")
        bench = ahead_bench(draw)
        interruptions = Interruptions(bench, draw)
        play(bench, random_actions(draw, 12))
        bench.finish()
        seen += check_history(bench) + interruptions.seen
    wanted = {"cancel at text", "took_many", "cut", "ended", "waited", "control", "stop_string", "client_disconnected"}
    wanted |= {f"{what} at {where}" for what in ("submit", "cancel") for where in ("launch", "collect")}
    assert all(seen[each] for each in wanted), f"a case is missing: {seen}"


@pytest.mark.parametrize("drains", [(True,), (False,), (True, False)], ids=["drained", "at_once", "drain_cut_short"])
def test_a_shutdown_while_the_device_works_ends_every_request_once(drains: tuple[bool, ...]) -> None:
    codes: Counter[str] = Counter()
    for seed in range(30):
        draw = random.Random(f"shutdown {seed}")
        bench = ahead_bench(draw)
        due = [Shutdown(drain=drain) for drain in drains]
        waits = [draw.randint(2, 12) for _ in drains]

        def working(
            bench: Bench[SimulatedProgram] = bench, due: list[Shutdown] = due, waits: list[int] = waits
        ) -> None:
            waits[0] -= 1
            if due and waits[0] <= 0:
                bench.engine.post(due.pop(0))
                waits.append(waits.pop(0))

        around_units(bench.program, lambda: None, working)
        for _ in range(6):
            bench.submit(**random_submit(draw))
        while bench.engine.step(wait=not bench.engine.idle):
            if bench.engine.idle and due:  # all had their end before it was to come
                bench.engine.post(due.pop(0))
        check_history(bench)
        codes.update(last.code if isinstance(last, Failed) else last.reason for last in bench.observer.last.values())
    assert codes["output_limit"] > 10 and (codes["service_unavailable"] > 10) == (False in drains), codes
    assert codes["service_unavailable"] == 0 or False in drains


@pytest.mark.parametrize("moment", ["launching", "collecting", "closing"])
def test_a_device_that_fails_with_a_round_in_flight_ends_every_request_once(moment: str) -> None:
    failed = 0
    for seed in range(40):
        draw = random.Random(f"{moment} {seed}")
        bench = ahead_bench(draw)
        left = draw.randint(1, 14)

        def fail() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise RuntimeError("the simulated device has failed")

        if moment == "closing":
            left, close_row = draw.randint(1, 3), bench.program.close_row

            def close_or_fail(row: int, close_row: Callable[[int], None] = close_row) -> None:
                fail()
                close_row(row)

            bench.program.close_row = close_or_fail  # type: ignore[method-assign]
        else:
            around_units(bench.program, *(fail if moment == each else _nothing for each in ("launching", "collecting")))
        for _ in range(draw.randint(1, 6)):
            bench.submit(**random_submit(draw))
        bench.engine.post(Shutdown(drain=True))
        survived = bench.engine.run()
        assert survived == (left > 0) and bench.program.closed
        assert sorted(bench.observer.last) == sorted(bench.submitted)
        assert len(bench.observer.fatal) == (0 if survived else 1)
        for request_id in bench.submitted:
            bench.check_text(request_id)
        failed += not survived
    assert failed > 20


def test_a_session_that_fails_with_a_round_in_flight_ends_its_own_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of requests whose text has a byte that this decoder cannot take."""
    push = SimulatedDecoder.push

    def broken_push(self: SimulatedDecoder, token_id: int) -> object:
        if token_id == BROKEN_TOKEN:
            raise RuntimeError("no such token")
        return push(self, token_id)

    monkeypatch.setattr(SimulatedDecoder, "push", broken_push)
    seen: Counter[str] = Counter()
    for seed in range(60):
        draw = random.Random(f"session {seed}")
        bench = ahead_bench(draw)
        play(bench, random_actions(draw, 12))
        bench.finish()
        bench.check_nothing_leaked()
        assert bench.observer.fatal == []
        for request_id, last in bench.observer.last.items():
            bench.check_text(request_id)
            seen[last.code if isinstance(last, Failed) else "finished"] += 1
        seen["logged"] += bench.log.getvalue().count("session_failed")
        seen += bench.program.ahead
    assert seen["generation_failed"] == seen["logged"] > 10 and seen["finished"] > 50 and seen["ended"] > 10


def _nothing() -> None:
    return
