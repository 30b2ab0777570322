"""The record of each interval: counted exactly, published on time, and only where there was work."""

from __future__ import annotations

import queue
import time

import pytest

from ninfer_core.api.service import Finished, Speculation
from ninfer_core.engine.draft_counts import DraftCounts
from ninfer_core.engine.inline import InlineEngine
from ninfer_core.engine.messages import EngineMessage, Event, Submit, Throughput, pack_token_ids
from ninfer_core.engine.throughput import Standing, ThroughputMeter
from ninfer_core.testing.histories import Clock, sampling
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import simulated_program

NOBODY = Standing(prefilling=0, decode_ready=0, waiting=0)


class Meter:
    """A meter on a clock that is moved by hand."""

    def __init__(self, interval_seconds: float = 5.0) -> None:
        self.clock = Clock()
        self.published: list[Throughput] = []
        self.drafts = DraftCounts()
        self.drafts.add(drafted=3, offered=2, taken=2)
        self.drafts.add(drafted=3, offered=3, taken=3)
        self.meter = ThroughputMeter(interval_seconds, self.clock, self.published.append)

    def boundary(
        self, *, prefill: int = 0, rows: int = 0, tokens: int = 0, unit: float = 1.0, host: float = 0.5
    ) -> None:
        """`host` seconds until the device has its unit, which takes it `unit` seconds."""
        self.meter.begin_boundary()
        self.clock.now += host
        self.meter.device_is_busy()
        self.clock.now += unit
        self.meter.device_is_done()
        if prefill:
            self.meter.prefilled(prefill)
        if rows:
            self.meter.decoded(rows=rows, tokens=tokens, drafts=self.drafts)
        self.meter.end_boundary(Standing(prefilling=1, decode_ready=rows, waiting=2))


@pytest.mark.contract("OLOG-7")
def test_an_interval_has_exactly_what_happened_in_it() -> None:
    meter = Meter()
    meter.boundary(prefill=100)
    for _ in range(3):
        meter.boundary(rows=2, tokens=5)
    assert meter.published == [
        Throughput(
            seconds=6.0,
            prefill_tokens=100,
            decode_tokens=15,
            decode_rounds=3,
            decode_rows=6,
            speculation=Speculation(
                rounds=6, drafted_tokens=18, accepted_tokens=9, fallback_steps=0, accepted_per_position=(6, 3, 0)
            ),
            host_seconds=1.5,
            prefilling=1,
            decode_ready=2,
            waiting=2,
        )
    ]
    for _ in range(4):
        meter.boundary(rows=1, tokens=1)
    _first, second = meter.published
    assert (second.seconds, second.prefill_tokens, second.decode_tokens) == (6.0, 0, 4)
    assert second.host_seconds == 2.0, "nobody waited for the very first unit"


@pytest.mark.contract("OLOG-8")
def test_idle_time_is_no_interval_and_begins_a_new_one() -> None:
    meter = Meter()
    assert meter.meter.seconds_left is None
    meter.clock.now += 1000
    meter.meter.begin_boundary()
    meter.meter.end_boundary(NOBODY)
    assert meter.published == [] and meter.meter.seconds_left is None
    meter.boundary(rows=1, tokens=1)
    assert meter.meter.seconds_left == 3.5
    meter.clock.now += 3.5
    assert meter.meter.seconds_left == 0.0
    meter.meter.begin_boundary()
    meter.meter.end_boundary(NOBODY)
    (interval,) = meter.published
    assert (interval.seconds, interval.decode_tokens, interval.host_seconds) == (5.0, 1, 0.0)
    assert meter.meter.seconds_left is None


def test_a_device_that_has_nothing_to_do_waits_for_nobody() -> None:
    meter = Meter()
    meter.boundary(rows=1, tokens=1)
    meter.meter.nothing_to_do()
    meter.clock.now += 100.0
    meter.boundary(rows=1, tokens=1)
    (interval,) = meter.published
    assert (interval.decode_rounds, interval.host_seconds) == (2, 0.0)


@pytest.mark.contract("OPT-11")
def test_an_interval_of_zero_publishes_nothing() -> None:
    meter = Meter(interval_seconds=0.0)
    for _ in range(20):
        meter.boundary(rows=1, tokens=1)
    assert meter.published == [] and meter.meter.seconds_left is None


@pytest.mark.contract("OLOG-7", "OLOG-8", "OBS-10", "OBS-11")
def test_an_engine_that_has_gone_idle_still_says_what_it_did() -> None:
    plan = simulated_plan()
    published: queue.Queue[EngineMessage] = queue.Queue()
    engine = InlineEngine(
        plan, SimulatedFrontend(), lambda on_phase: simulated_program(plan), published.put, stats_interval_ms=50
    )
    now = time.monotonic()
    with engine:
        engine.post(
            Submit(
                request_id=1,
                prompt=pack_token_ids(tuple(range(40))),
                initial_channel="content",
                sampling=sampling(1),
                max_output_tokens=5,
                stop=(),
                stop_channels=(),
                received_monotonic=now,
                deadline_monotonic=now + 60,
            )
        )
        time.sleep(0.3)
    messages = [published.get() for _ in range(published.qsize())]
    intervals = [message for message in messages if isinstance(message, Throughput)]
    (finished,) = (
        message.event for message in messages if isinstance(message, Event) and isinstance(message.event, Finished)
    )
    assert sum(interval.prefill_tokens for interval in intervals) == 40
    assert sum(interval.decode_tokens for interval in intervals) == finished.usage.output_tokens - 1
    assert all(interval.seconds >= 0.05 for interval in intervals) and len(intervals) <= 2
    assert (intervals[-1].prefilling, intervals[-1].decode_ready, intervals[-1].waiting) == (0, 0, 0)
