"""Random histories: whatever clients do and whenever, the invariants of the engine hold and every text is exact."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed, Shutdown
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_plan, simulated_program

STOPS = st.lists(st.sampled_from(["ab", "abca", "c\n", "漢", "aaa", "bca", "\ufffd", " "]), max_size=2).map(tuple)

SUBMIT = st.fixed_dictionaries(
    {
        "prompt_tokens": st.sampled_from([1, 16, 17, 40, 63, 100]),
        "max_output_tokens": st.sampled_from([60, 35, 20, 2, 1, 0]),
        "seed": st.integers(0, 2**64 - 1),
        "channel": st.sampled_from(["reasoning", "content"]),
        "stop": STOPS,
        "wait_seconds": st.sampled_from([1e9, 1e9, 1e9, 3.0, 0.5, 0.0]),
    }
)
ACTION = st.one_of(
    SUBMIT,
    SUBMIT,
    SUBMIT,
    st.tuples(st.just("cancel"), st.integers(0, 15)),
    st.tuples(st.just("step"), st.integers(1, 5)),
    st.tuples(st.just("pass"), st.floats(0.01, 2.0)),
)
MACHINE = st.fixed_dictionaries(
    {
        "max_context": st.integers(64, 128),
        "page_tokens": st.sampled_from([16, 64]),
        "spare_pages": st.sampled_from([40, 5, 0]),
        "max_concurrency": st.sampled_from([8, 4, 2, 1]),
        "max_pending_requests": st.sampled_from([20, 2, 0]),
        "prefill_chunk": st.sampled_from([16, 128]),
        "columns": st.sampled_from([2, 1, 4, 16]),
        "seed": st.integers(0, 1000),
    }
)


def bench_for(machine: dict[str, int]) -> Bench[SimulatedProgram]:
    least = -(-machine["max_context"] // machine["page_tokens"])
    plan = simulated_plan(
        max_context=machine["max_context"],
        page_tokens=machine["page_tokens"],
        kv_pages=least + machine["spare_pages"],
        max_concurrency=machine["max_concurrency"],
        max_pending_requests=machine["max_pending_requests"],
        prefill_chunk=machine["prefill_chunk"],
    )
    return Bench(plan, simulated_program(plan, columns=machine["columns"], seed=machine["seed"]))


def play(bench: Bench[SimulatedProgram], actions: list[object]) -> None:
    for action in actions:
        match action:
            case dict():
                bench.submit(**action)
            case ("cancel", request_id):
                bench.cancel(request_id)
            case ("step", count):
                bench.step(count)
            case ("pass", seconds):
                bench.clock.now += seconds


def check(bench: Bench[SimulatedProgram]) -> None:
    bench.check_nothing_leaked()
    assert bench.observer.fatal == []
    assert sorted(bench.observer.last) == sorted(bench.submitted)
    assert bench.observer.admissions == sorted(bench.observer.admissions), "admission is first in, first out"
    for request_id in bench.submitted:
        bench.check_text(request_id)
    codes = {last.code for last in bench.observer.last.values() if isinstance(last, Failed)}
    assert codes <= {
        "client_disconnected",
        "request_queue_timeout",
        "server_overloaded",
        "context_length_exceeded",
        "service_unavailable",
    }


def history(machine: dict[str, int], actions: list[object]) -> None:
    bench = bench_for(machine)
    play(bench, actions)
    bench.finish()
    check(bench)


RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@pytest.mark.contract("EXEC-1", "EXEC-2", "EXEC-3", "EXEC-4", "EXEC-5", "EXEC-8", "EXEC-22", "CHAT-8", "CHAT-11")
@settings(max_examples=400, **RELAXED)
@given(MACHINE, st.lists(ACTION, min_size=15, max_size=40))
def test_random_histories(machine: dict[str, int], actions: list[object]) -> None:
    history(machine, actions)


@pytest.mark.long
@settings(max_examples=10_000, **RELAXED)
@given(MACHINE, st.lists(ACTION, min_size=20, max_size=60))
def test_many_random_histories(machine: dict[str, int], actions: list[object]) -> None:
    history(machine, actions)


@settings(max_examples=150, **RELAXED)
@given(MACHINE, st.lists(ACTION, min_size=8, max_size=25), st.lists(ACTION, max_size=8), st.booleans())
def test_a_shutdown_at_any_time_ends_every_request_once(
    machine: dict[str, int], before: list[object], after: list[object], drain: bool
) -> None:
    bench = bench_for(machine)
    play(bench, before)
    bench.engine.post(Shutdown(drain=drain))
    late = len(bench.submitted)
    play(bench, after)
    while bench.engine.step():
        pass
    check(bench)
    for request_id, last in bench.observer.last.items():
        if request_id >= late:
            assert isinstance(last, Failed) and last.code == "service_unavailable"
        elif drain:
            assert isinstance(last, Finished) or last.code != "service_unavailable"


@settings(max_examples=100, **RELAXED)
@given(MACHINE, st.lists(SUBMIT, min_size=1, max_size=8), st.integers(1, 12))
def test_a_failing_device_ends_every_request_once(
    machine: dict[str, int], submits: list[dict[str, object]], fail_at_unit: int
) -> None:
    bench = bench_for(machine)
    bench.program.fail_at_unit = fail_at_unit
    play(bench, list(submits))
    bench.engine.post(Shutdown(drain=True))
    survived = bench.engine.run()
    assert sorted(bench.observer.last) == sorted(bench.submitted)
    assert survived == (bench.program.units < fail_at_unit)
    assert len(bench.observer.fatal) == (0 if survived else 1)
    assert bench.log.getvalue().count("engine_failed") == len(bench.observer.fatal)
    assert bench.program.closed
