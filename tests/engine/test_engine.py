from __future__ import annotations

import pytest

from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed, Fatal, Shutdown, Submit, pack_token_ids
from ninfer_core.testing.histories import Bench, sampling
from ninfer_core.testing.simulated_frontend import SimulatedDecoder
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program


def bench(*, columns: int = 1, fail_at_unit: int | None = None, **capacities: int) -> Bench[SimulatedProgram]:
    plan = simulated_plan(draft_tokens=columns - 1, **capacities)
    return Bench(plan, simulated_program(plan, fail_at_unit=fail_at_unit))


def code(under_test: Bench[SimulatedProgram], request_id: int) -> str:
    last = under_test.observer.last[request_id]
    return last.code if isinstance(last, Failed) else last.reason


@pytest.mark.contract("CHAT-8")
def test_no_output_wanted_still_processes_the_prompt() -> None:
    under_test = bench(prefill_chunk=128)
    request_id = under_test.submit(prompt_tokens=200, max_output_tokens=0)
    under_test.finish()
    last = under_test.observer.last[request_id]
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.output_tokens, under_test.program.units) == ("output_limit", 0, 2)


@pytest.mark.contract("CHAT-47", "EXEC-20")
@pytest.mark.parametrize(
    ("prompt_tokens", "max_output_tokens", "reason", "most"),
    [(250, 100, "context_capacity", 6), (250, 6, "output_limit", 6), (256, 5, "context_capacity", 0)],
)
def test_the_tighter_bound_names_the_end(prompt_tokens: int, max_output_tokens: int, reason: str, most: int) -> None:
    under_test = bench(max_context=256)
    request_id = under_test.submit(prompt_tokens=prompt_tokens, max_output_tokens=max_output_tokens, seed=2)
    under_test.finish()
    last = under_test.observer.last[request_id]
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.output_tokens) == (reason, most)


@pytest.mark.contract("MEDIA-2")
def test_a_prompt_over_the_context_is_refused_with_the_numbers() -> None:
    under_test = bench(max_context=256)
    request_id = under_test.submit(prompt_tokens=257)
    under_test.finish()
    last = under_test.observer.last[request_id]
    assert isinstance(last, Failed)
    assert last.code == "context_length_exceeded"
    assert "257" in last.message and "256" in last.message
    assert under_test.program.units == 0


def test_a_reservation_that_can_never_fit_is_refused_before_anything_is_touched() -> None:
    under_test = bench(max_context=256, kv_pages=2, page_tokens=64)
    request_id = under_test.submit(prompt_tokens=100, max_output_tokens=29)
    fits = under_test.submit(prompt_tokens=100, max_output_tokens=28)
    under_test.finish()
    last = under_test.observer.last[request_id]
    assert isinstance(last, Failed)
    assert last.code == "context_length_exceeded" and "128" in last.message
    assert isinstance(under_test.observer.last[fits], Finished)


@pytest.mark.parametrize(
    ("prompt", "max_output_tokens", "stop", "expected"),
    [
        (b"", 1, (), "invalid_prompt"),
        (b"odd", 1, (), "generation_failed"),
        (pack_token_ids([65]), -1, (), "generation_failed"),
        (pack_token_ids([65]), 1, ("",), "generation_failed"),
    ],
)
def test_what_no_front_sends_harms_nobody_else(
    prompt: bytes, max_output_tokens: int, stop: tuple[str, ...], expected: str
) -> None:
    under_test = bench()
    healthy = under_test.submit(seed=2)
    under_test.submitted[7] = request = Submit(
        request_id=7,
        prompt=prompt,
        initial_channel="content",
        sampling=sampling(0),
        max_output_tokens=max_output_tokens,
        stop=stop,
        stop_channels=("content",),
        received_monotonic=0.0,
        deadline_monotonic=1e9,
    )
    under_test.engine.post(request)
    under_test.finish()
    assert code(under_test, 7) == expected
    under_test.check_text(healthy)
    under_test.check_nothing_leaked()


@pytest.mark.contract("EXEC-4", "EXEC-5")
def test_over_the_lifetime_capacity_is_overloaded_at_once_and_places_come_back() -> None:
    under_test = bench(max_concurrency=1, max_pending_requests=1)
    first, second, third = (under_test.submit() for _ in range(3))
    assert code(under_test, third) == "server_overloaded"
    under_test.cancel(first)
    under_test.step()
    under_test.submit()
    under_test.finish()
    assert code(under_test, first) == "client_disconnected"
    assert isinstance(under_test.observer.last[second], Finished)
    assert isinstance(under_test.observer.last[3], Finished)


@pytest.mark.contract("EXEC-5")
def test_a_deadline_passed_while_waiting_says_how_long() -> None:
    under_test = bench(max_concurrency=1)
    under_test.submit(prompt_tokens=100)
    waiting = under_test.submit(wait_seconds=1.5)
    under_test.step()
    under_test.clock.now += 1.5
    under_test.step()
    last = under_test.observer.last[waiting]
    assert isinstance(last, Failed)
    assert (last.code, last.waited_ms) == ("request_queue_timeout", 1500)


def test_a_deadline_means_nothing_once_admitted() -> None:
    under_test = bench()
    request_id = under_test.submit(wait_seconds=1.0)
    under_test.step()
    under_test.clock.now += 100.0
    under_test.finish()
    assert isinstance(under_test.observer.last[request_id], Finished)


@pytest.mark.contract("EXEC-8")
def test_a_head_that_does_not_fit_holds_the_line() -> None:
    under_test = bench(max_context=256, kv_pages=4, page_tokens=64)
    under_test.submit(prompt_tokens=128, max_output_tokens=20, seed=2)
    large = under_test.submit(prompt_tokens=200, max_output_tokens=5)
    small = under_test.submit(prompt_tokens=5, max_output_tokens=5)
    under_test.step(4)
    assert under_test.observer.admissions == [0]
    under_test.finish()
    assert under_test.observer.admissions == [0, large, small]


def test_decode_rounds_go_on_while_a_long_prompt_is_prefilled() -> None:
    under_test = bench(max_context=2048, kv_pages=64, prefill_chunk=128)
    short = under_test.submit(prompt_tokens=10, max_output_tokens=200, seed=2)
    under_test.step(2)
    under_test.submit(prompt_tokens=1280, max_output_tokens=1)
    rounds_before = len(under_test.program.round_sizes)
    assert short not in under_test.observer.last
    under_test.step(12)
    assert len(under_test.program.round_sizes) - rounds_before == 6


@pytest.mark.contract("EXEC-2", "EXEC-3")
def test_a_round_has_exactly_the_ready_rows() -> None:
    under_test = bench(max_concurrency=4, kv_pages=16)
    for _ in range(4):
        under_test.submit(prompt_tokens=10, max_output_tokens=30, seed=2)
    under_test.step(8)
    assert under_test.program.round_sizes[-1] == 4
    under_test.cancel(2)
    under_test.step()
    assert under_test.program.round_sizes[-1] == 3


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
def test_a_cancel_works_within_one_boundary_in_every_state(steps: int) -> None:
    under_test = bench(max_context=1024, kv_pages=16, prefill_chunk=128)
    request_id = under_test.submit(prompt_tokens=250, max_output_tokens=100, seed=2)
    under_test.step(steps)
    under_test.cancel(request_id)
    under_test.step()
    assert code(under_test, request_id) == "client_disconnected"
    under_test.check_nothing_leaked()


def test_cancels_of_unknown_and_finished_requests_are_ignored() -> None:
    under_test = bench()
    request_id = under_test.submit()
    under_test.finish()
    under_test.cancel(request_id)
    under_test.cancel(99)
    under_test.step()
    assert len(under_test.observer.last) == 1


def test_an_id_in_use_is_refused_to_the_caller() -> None:
    under_test = bench()
    request_id = under_test.submit()
    with pytest.raises(ValueError, match="in use"):
        under_test.engine.post(under_test.submitted[request_id])


def test_a_failing_decoder_ends_its_own_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = bench()
    healthy = under_test.submit(seed=2)
    failing = under_test.submit(seed=1, channel="reasoning")
    push = SimulatedDecoder.push

    def broken_push(self: SimulatedDecoder, token_id: int) -> object:
        if self.channel == "reasoning":
            raise RuntimeError("no such token")
        return push(self, token_id)

    monkeypatch.setattr(SimulatedDecoder, "push", broken_push)
    under_test.finish()
    assert code(under_test, failing) == "generation_failed"
    under_test.check_text(healthy)
    under_test.check_nothing_leaked()
    assert under_test.observer.fatal == []


@pytest.mark.contract("GEN-3")
def test_a_failing_device_ends_the_engine_and_all_it_holds() -> None:
    under_test = bench(fail_at_unit=3)
    for _ in range(3):
        under_test.submit(seed=2)
    assert under_test.engine.run() is False
    assert {code(under_test, request_id) for request_id in range(3)} == {"service_unavailable"}
    (fatal,) = under_test.observer.fatal
    assert isinstance(fatal, Fatal) and "simulated device" in fatal.message
    late = under_test.submit()
    assert code(under_test, late) == "service_unavailable"


@pytest.mark.contract("GEN-3")
@pytest.mark.parametrize("failing", ["_receive", "close_row"])
def test_whenever_the_engine_fails_every_request_gets_its_end_once(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """In the middle of a batch of messages, or of the rows that a round has ended."""
    under_test = bench(max_concurrency=4, kv_pages=16)
    ids = [under_test.submit(prompt_tokens=4, max_output_tokens=8, seed=2) for _ in range(4)]
    owner = under_test.engine if failing == "_receive" else under_test.program
    real, calls = getattr(owner, failing), 0

    def fail(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("\ud800 the second one")
        real(*arguments)

    monkeypatch.setattr(owner, failing, fail)
    assert under_test.engine.run() is False
    ended = {request_id: under_test.observer.last[request_id] for request_id in ids}
    assert sum(isinstance(end, Failed) and end.code == "service_unavailable" for end in ended.values()) >= 2
    (fatal,) = under_test.observer.fatal
    assert fatal.message.encode()


def test_a_program_that_fails_as_it_closes_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = bench(fail_at_unit=3)
    under_test.submit(seed=2)

    def close() -> None:
        raise OSError("the device is gone")

    monkeypatch.setattr(under_test.program, "close", close)
    assert under_test.engine.run() is False
    (fatal,) = under_test.observer.fatal
    assert "simulated device" in fatal.message


def test_a_drain_can_be_cut_short() -> None:
    under_test = bench()
    request_id = under_test.submit(max_output_tokens=100, seed=2)
    under_test.engine.post(Shutdown(drain=True))
    under_test.step(2)
    under_test.engine.post(Shutdown(drain=False))
    assert under_test.engine.step() is False
    assert code(under_test, request_id) == "service_unavailable"


@pytest.mark.contract("OBS-4", "OBS-5")
def test_the_clocks_run_from_admission_and_between_commits() -> None:
    under_test = bench(max_concurrency=1)
    request_id = under_test.submit(prompt_tokens=200, max_output_tokens=3, seed=2)
    under_test.clock.now += 2.0
    under_test.step()
    for _ in range(3):
        under_test.clock.now += 1.0
        under_test.step()
    last = under_test.observer.last[request_id]
    assert isinstance(last, Finished)
    timings = last.timings
    assert (timings.queue_seconds, timings.prompt_seconds, timings.generation_seconds) == (2.0, 1.0, 2.0)
