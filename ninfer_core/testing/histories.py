"""The real engine stepped by hand, and everything it says checked as it comes."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from ninfer_core.api.frontend import Frontend
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import Channel
from ninfer_core.api.service import Admitted, Finished, Progress, TextDelta
from ninfer_core.engine.engine import Engine
from ninfer_core.engine.messages import Cancel, EngineMessage, Event, Failed, Submit, Throughput, pack_token_ids
from ninfer_core.program.contract import Program, Sampling
from ninfer_core.program.pages import PagePool
from ninfer_core.program.slots import SlotPool
from ninfer_core.telemetry import create_log
from ninfer_core.testing.oracle import expected
from ninfer_core.testing.simulated_frontend import SimulatedFrontend


@dataclass
class Clock:
    """Seconds that pass only when told to."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Observer:
    """Collects what is published and checks its order as it comes."""

    admissions: list[int] = field(default_factory=list)
    timeline: list[tuple[Literal["admitted", "ended"], int]] = field(default_factory=list)
    text: dict[int, dict[str, str]] = field(
        default_factory=lambda: defaultdict(lambda: {"reasoning": "", "content": ""})
    )
    processed_tokens: dict[int, int] = field(default_factory=dict)
    live_tokens: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    last: dict[int, Finished | Failed] = field(default_factory=dict)
    intervals: list[Throughput] = field(default_factory=list)
    fatal: list[EngineMessage] = field(default_factory=list)

    def __call__(self, message: EngineMessage) -> None:
        if isinstance(message, Failed):
            self._end(message.request_id, message)
        elif isinstance(message, Event):
            self._event(message)
        elif isinstance(message, Throughput):
            self.intervals.append(message)
        else:
            self.fatal.append(message)

    def _event(self, message: Event) -> None:
        request_id, event = message.request_id, message.event
        assert request_id not in self.last, f"request {request_id} goes on after its end"
        if isinstance(event, Admitted):
            assert request_id not in self.admissions, "admitted twice"
            self.admissions.append(request_id)
            self.timeline.append(("admitted", request_id))
            return
        assert request_id in self.admissions, "output before admission"
        if isinstance(event, Progress):
            assert request_id not in self.text, "progress after output"
            assert event.processed_tokens > self.processed_tokens.get(request_id, 0), "progress without any"
            self.processed_tokens[request_id] = event.processed_tokens
            return
        if isinstance(event, TextDelta):
            assert event.text, "an empty delta"
            assert event.live is not None and event.live.output_tokens >= self.live_tokens[request_id], "tokens go back"
            self.live_tokens[request_id] = event.live.output_tokens
            self.text[request_id][event.channel] += event.text
        else:
            assert isinstance(event, Finished), "tool calls are parsed by the front, from the engine's text"
            self._end(request_id, event)

    def _end(self, request_id: int, message: Finished | Failed) -> None:
        assert request_id not in self.last, f"request {request_id} ends twice"
        self.timeline.append(("ended", request_id))
        if isinstance(message, Finished):
            assert self.processed_tokens[request_id] == message.usage.prompt_tokens, (
                "the prompt was not told to its end"
            )
            assert self.live_tokens[request_id] <= message.usage.output_tokens
        self.last[request_id] = message


class CountedProgram(Program, Protocol):
    """A program that says what it holds."""

    pages: PagePool
    slots: SlotPool

    @property
    def open_rows(self) -> int:
        """Rows that have been opened and not closed."""
        ...


CountedProgramT = TypeVar("CountedProgramT", bound=CountedProgram)


@dataclass
class Bench(Generic[CountedProgramT]):
    """An engine that is stepped by hand. With `ahead`, a boundary leaves what it has committed to the next one, and a
    round in flight, as those of an engine that runs do."""

    plan: ExecutionPlan
    program: CountedProgramT
    frontend: Frontend = field(default_factory=SimulatedFrontend)
    clock: Clock = field(default_factory=Clock)
    observer: Observer = field(default_factory=Observer)
    submitted: dict[int, Submit] = field(default_factory=dict)
    log: io.StringIO = field(default_factory=io.StringIO)
    stats_interval_seconds: float = 0.0
    ahead: bool = False

    def __post_init__(self) -> None:
        log = create_log(stream=self.log)
        self.engine = Engine(
            self.plan, self.program, self.frontend, self._published, self.clock, log, self.stats_interval_seconds
        )

    def _published(self, message: EngineMessage) -> None:
        self.observer(message)
        if isinstance(message, Event) and isinstance(message.event, Finished):
            held = self.engine.holds(message.request_id)
            assert not held, "a request's end is told before its row is given back"

    def submit(
        self,
        *,
        prompt_tokens: int = 10,
        token_ids: tuple[int, ...] | None = None,
        max_output_tokens: int = 20,
        seed: int = 0,
        greedy: bool = False,
        sampled: Sampling | None = None,
        channel: Channel = "content",
        stop: tuple[str, ...] = (),
        stop_channels: tuple[Channel, ...] = ("reasoning", "content"),
        thinking_budget: int | None = None,
        wait_seconds: float = 1e9,
    ) -> int:
        request_id = len(self.submitted)
        message = Submit(
            request_id=request_id,
            prompt=pack_token_ids((65,) * prompt_tokens if token_ids is None else token_ids),
            initial_channel=channel,
            sampling=sampling(seed, greedy=greedy) if sampled is None else sampled,
            max_output_tokens=max_output_tokens,
            stop=stop,
            stop_channels=stop_channels,
            thinking_budget=thinking_budget,
            received_monotonic=self.clock.now,
            deadline_monotonic=self.clock.now + wait_seconds,
        )
        self.submitted[request_id] = message
        self.engine.post(message)
        return request_id

    def cancel(self, request_id: int) -> None:
        self.engine.post(Cancel(request_id=request_id))

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.engine.step(wait=self.ahead and not self.engine.idle)

    def finish(self, bound: int = 100_000) -> None:
        """Step until every request has ended."""
        for _ in range(bound):
            if len(self.observer.last) == len(self.submitted):
                return
            self.step()
        raise AssertionError(f"requests {sorted(set(self.submitted) - set(self.observer.last))} never ended")

    def check_nothing_leaked(self) -> None:
        assert self.program.open_rows == 0
        assert self.program.pages.free_pages == self.program.pages.pages
        assert self.program.slots.free_slots == self.program.slots.slots

    def check_text(self, request_id: int) -> None:
        """On the simulated program: a finished request has exactly the oracle's text and counts, a failed one a
        prefix of its text."""
        submit, last = self.submitted[request_id], self.observer.last[request_id]
        wanted = expected(submit, self.plan.capacities.max_context)
        got = self.observer.text[request_id]
        if isinstance(last, Failed):
            assert wanted.text["reasoning"].startswith(got["reasoning"])
            assert wanted.text["content"].startswith(got["content"])
            return
        assert got == wanted.text
        assert (last.reason, last.stop_string) == (wanted.reason, wanted.stop_string)
        assert last.usage.output_tokens == wanted.output_tokens
        assert last.usage.reasoning_tokens == wanted.reasoning_tokens
        assert last.usage.prompt_tokens == len(submit.token_ids)
        assert last.usage.thinking_budget == submit.thinking_budget
        assert last.usage.thinking_control_tokens == wanted.control_tokens
        assert last.usage.model_thinking_tokens == wanted.reasoning_tokens - wanted.control_tokens
        _check_drafts(last)


def _check_drafts(last: Finished) -> None:
    """What was accepted explains the length of the answer: a round gives one token more than it accepts, unless it is
    cut. That happens at most twice, at the end of the answer and before the tokens that close its thinking."""
    counts = last.speculation
    if counts is None:
        return
    of_rounds = last.usage.output_tokens - 1 - last.usage.thinking_control_tokens
    cut = counts.accepted_tokens + counts.rounds - of_rounds
    assert 0 <= cut <= 1 + last.usage.thinking_control_applied, f"{cut} rounds were cut"
    assert counts.accepted_tokens == sum(counts.accepted_per_position) <= counts.drafted_tokens
    assert list(counts.accepted_per_position) == sorted(counts.accepted_per_position, reverse=True)
    assert 0 <= counts.fallback_steps <= counts.rounds


def sampling(seed: int, *, greedy: bool = False) -> Sampling:
    return Sampling(
        temperature=0.0 if greedy else 1.0,
        top_p=1.0,
        top_k=20,
        min_p=0.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        seed=seed,
    )
