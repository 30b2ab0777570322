"""Random histories: whatever clients do and whenever, the invariants of the engine hold and every text is exact.

Of docs/engine.md, "What always holds": 1 and 2 (order, reservations) by `check_admissions` and `check_accounts`, 3 by
the texts and by the rows that are gone before an end is told, 4 by `check_nothing_leaked`, 5 by the program.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed, Shutdown
from ninfer_core.testing.random_histories import (
    CODES,
    check_history,
    play,
    random_actions,
    random_machine,
    random_submit,
    run_history,
)


@pytest.mark.contract(
    "EXEC-1", "EXEC-2", "EXEC-3", "EXEC-4", "EXEC-5", "EXEC-8", "EXEC-18", "EXEC-20", "EXEC-22", "CHAT-8", "CHAT-11"
)
def test_random_histories() -> None:
    seen = sum((run_history(seed, 40) for seed in range(300)), Counter[str]())
    endings = {"output_limit", "context_capacity", "stop_token", "stop_string"}
    wanted = {*endings, *CODES - {"service_unavailable"}, "control", "overtaken"}
    wanted |= {"took_many", "cut", "ended", "waited"}
    assert all(seen[each] for each in wanted), f"a case is missing: {seen}"


@pytest.mark.long
def test_four_thousand_random_histories() -> None:
    for seed in range(4_000):
        run_history(1_000_000 + seed, 50)


def test_a_shutdown_at_any_time_ends_every_request_once() -> None:
    for seed in range(120):
        draw = random.Random(seed)
        bench = random_machine(draw).bench()
        play(bench, random_actions(draw, draw.randint(5, 25)))
        drain = draw.random() < 0.5
        bench.engine.post(Shutdown(drain=drain))
        late = len(bench.submitted)
        play(bench, random_actions(draw, 8))
        while bench.engine.step():
            pass
        check_history(bench)
        for request_id, last in bench.observer.last.items():
            if request_id >= late:
                assert isinstance(last, Failed) and last.code == "service_unavailable"
            elif drain:
                assert isinstance(last, Finished) or last.code != "service_unavailable"


def test_a_failing_device_ends_every_request_once() -> None:
    for seed in range(80):
        draw = random.Random(seed)
        bench = random_machine(draw).bench()
        fail_at_unit = draw.randint(1, 12)
        bench.program.fail_at_unit = fail_at_unit
        play(bench, [random_submit(draw) for _ in range(draw.randint(1, 8))])
        bench.engine.post(Shutdown(drain=True))
        survived = bench.engine.run()
        assert sorted(bench.observer.last) == sorted(bench.submitted)
        assert survived == (bench.program.units < fail_at_unit)
        assert len(bench.observer.fatal) == (0 if survived else 1)
        assert bench.log.getvalue().count("engine_failed") == len(bench.observer.fatal)
        assert bench.program.closed
