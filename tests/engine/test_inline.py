from __future__ import annotations

import queue
import threading
import time

import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.service import Admitted, Finished
from ninfer_core.engine.inline import InlineEngine
from ninfer_core.engine.messages import Cancel, EngineMessage, Event, Failed, PhaseDone, Ready, Submit, pack_token_ids
from ninfer_core.program.contract import OnPhase, Program
from ninfer_core.testing.histories import sampling
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

PLAN = simulated_plan(max_concurrency=4, max_pending_requests=60, kv_pages=16, draft_tokens=2)


def submit(request_id: int) -> Submit:
    now = time.monotonic()
    return Submit(
        request_id=request_id,
        prompt=pack_token_ids((65, 66)),
        initial_channel="content",
        sampling=sampling(request_id),
        max_output_tokens=40,
        stop=(),
        stop_channels=("content",),
        received_monotonic=now,
        deadline_monotonic=now + 60,
    )


def inline(published: queue.Queue[EngineMessage], built: list[SimulatedProgram]) -> InlineEngine:
    def build(on_phase: OnPhase) -> Program:
        on_phase("pools", 0.0)
        built.append(simulated_program(PLAN))
        return built[0]

    return InlineEngine(PLAN, SimulatedFrontend(), build, published.put)


def test_requests_of_many_threads_all_end_once() -> None:
    published: queue.Queue[EngineMessage] = queue.Queue()
    built: list[SimulatedProgram] = []
    with inline(published, built) as engine:
        threads = [
            threading.Thread(target=lambda base=base: [engine.post(submit(base + index)) for index in range(8)])
            for base in range(0, 64, 8)
        ]
        for thread in threads:
            thread.start()
        engine.post(Cancel(request_id=5))
        for thread in threads:
            thread.join()
        assert engine.stop(drain=True, timeout_seconds=30)
    messages = [published.get_nowait() for _ in range(published.qsize())]
    assert messages[:2] == [PhaseDone(name="pools", seconds=0.0), Ready(plan_digest=PLAN.digest)]
    ends = [
        message.request_id
        for message in messages
        if isinstance(message, Failed) or (isinstance(message, Event) and isinstance(message.event, Finished))
    ]
    assert sorted(ends) == list(range(64))
    assert built[0].closed and built[0].open_rows == 0


def test_leaving_the_block_ends_what_is_open() -> None:
    published: queue.Queue[EngineMessage] = queue.Queue()
    with inline(published, []) as engine:
        for request_id in range(60):
            engine.post(submit(request_id))
        while not isinstance(getattr(published.get(timeout=10), "event", None), Admitted):
            pass
    assert not engine.alive
    assert any(isinstance(message, Failed) for message in list(published.queue))


def test_a_failing_build_is_raised_where_the_engine_is_started() -> None:
    def build(on_phase: OnPhase) -> Program:
        raise MemoryError("no room")

    engine = InlineEngine(PLAN, SimulatedFrontend(), build, lambda message: None)
    with pytest.raises(StartFailed, match="no room"):
        engine.start()
    assert engine.stop(timeout_seconds=5)


def test_a_start_that_nobody_can_be_told_of_has_failed() -> None:
    def publish(message: EngineMessage) -> None:
        raise OSError("nobody listens")

    engine = InlineEngine(PLAN, SimulatedFrontend(), lambda on_phase: simulated_program(PLAN), publish)
    with pytest.raises(StartFailed, match="nobody listens"):
        engine.start()
    assert not engine.ready and engine.stop(timeout_seconds=5)
