"""Random request histories on the engine with a simulated program, and what must be true of each.

A history is a machine, which is the capacities of a plan, and actions: submits, cancels, boundaries, time that passes.
Both come from a `random.Random`, so a seed names a history.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed, Submit
from ninfer_core.plan.memory import pages_for
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.simulated_frontend import CONTROL_IDS
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

CODES = frozenset(
    (
        "client_disconnected",
        "request_queue_timeout",
        "server_overloaded",
        "context_length_exceeded",
        "thinking_budget_capacity_insufficient",
        "service_unavailable",
    )
)
"""All that may go wrong where the device does not fail."""

STOPS = ("ab", "abca", "c\n", "漢", "aaa", "bca", "\ufffd", " ")


@dataclass(frozen=True)
class Machine:
    """`spare_pages` are what the pool has beyond one whole context; `columns` is W of the program, which goes ahead
    unless `asks_host`."""

    max_context: int
    page_tokens: int
    spare_pages: int
    max_concurrency: int
    max_pending_requests: int
    prefill_chunk: int
    columns: int
    asks_host: bool
    seed: int

    def bench(self) -> Bench[SimulatedProgram]:
        plan = simulated_plan(
            max_context=self.max_context,
            page_tokens=self.page_tokens,
            kv_pages=pages_for(self.max_context, self.page_tokens) + self.spare_pages,
            max_concurrency=self.max_concurrency,
            max_pending_requests=self.max_pending_requests,
            prefill_chunk=self.prefill_chunk,
            draft_tokens=self.columns - 1,
        )
        program = simulated_program(plan, seed=self.seed)
        program.goes_ahead = not self.asks_host
        return Bench(plan, program)


def random_machine(draw: random.Random) -> Machine:
    """Small enough that requests get into each other's way."""
    return Machine(
        max_context=draw.randint(64, 128),
        page_tokens=draw.choice((16, 64)),
        spare_pages=draw.choice((0, 1, 3, 5, 8, 40)),
        max_concurrency=draw.choice((1, 2, 3, 4, 8)),
        max_pending_requests=draw.choice((0, 4, 20, 20)),
        prefill_chunk=draw.choice((16, 128)),
        columns=draw.choice((1, 2, 4, 16)),
        asks_host=draw.random() < 0.2,
        seed=draw.randrange(1 << 30),
    )


def random_submit(draw: random.Random) -> dict[str, Any]:
    """Arguments of `Bench.submit`."""
    return {
        "prompt_tokens": draw.choice((1, 5, 16, 17, 40, 63, 100, 130)),
        "max_output_tokens": draw.choice((0, 1, 2, 20, 35, 60)),
        "seed": draw.randrange(1 << 64),
        "channel": draw.choice(("reasoning", "content")),
        "stop": tuple(draw.sample(STOPS, draw.choice((0, 0, 0, 1, 2)))),
        "stop_channels": draw.choice((("reasoning", "content"), ("reasoning", "content"), ("content",))),
        "thinking_budget": draw.choice((None, None, 1, 3, 10, 30)),
        "wait_seconds": draw.choice((1e9, 1e9, 1e9, 3.0, 0.5, 0.0)),
    }


def random_actions(draw: random.Random, count: int) -> list[object]:
    """Submits come in bursts, as otherwise nothing would ever wait."""
    actions: list[object] = []
    while len(actions) < count:
        match draw.choices(("submits", "cancel", "step", "pass"), (5, 2, 3, 1))[0]:
            case "submits":
                actions += [random_submit(draw) for _ in range(draw.randint(1, 4))]
            case "cancel":
                actions.append(("cancel", draw.randrange(count)))
            case "step":
                actions.append(("step", draw.randint(1, 12)))
            case _:
                actions.append(("pass", draw.uniform(0.01, 2.0)))
    return actions


def play(bench: Bench[SimulatedProgram], actions: list[object]) -> None:
    """Do what the actions say, and check the accounts at every boundary."""
    for action in actions:
        match action:
            case dict():
                bench.submit(**action)
            case ("cancel", int(request_id)):
                bench.cancel(request_id)
            case ("step", int(count)):
                for _ in range(count):
                    bench.step()
                    bench.program.check_accounts()
            case ("pass", float(seconds)):
                bench.clock.now += seconds
            case _:
                raise AssertionError(f"no such action: {action}")


def check_history(bench: Bench[SimulatedProgram]) -> Counter[str]:
    """Every request has ended once and exactly as it had to, in the order it had to, and nothing is held any more.

    -> how often what happened, for tests that want to know what they have seen.
    """
    bench.check_nothing_leaked()
    assert bench.observer.fatal == []
    assert sorted(bench.observer.last) == sorted(bench.submitted)
    seen: Counter[str] = Counter(overtaken=check_admissions(bench), **bench.program.ahead)
    for request_id, last in bench.observer.last.items():
        bench.check_text(request_id)
        if isinstance(last, Failed):
            assert last.code in CODES, last
            seen[last.code] += 1
        else:
            seen[last.reason] += 1
            seen["control"] += last.usage.thinking_control_applied
    for request_id, submit in bench.submitted.items():
        check_refusal(bench, request_id, submit)
    return seen


def check_refusal(bench: Bench[SimulatedProgram], request_id: int, submit: Submit) -> None:
    """A budget is refused exactly where its end would not fit, unless something else came first."""
    last = bench.observer.last[request_id]
    room = bench.plan.capacities.max_context - len(submit.token_ids)
    limit, budget = min(submit.max_output_tokens, room), submit.thinking_budget
    hopeless = budget is not None and submit.initial_channel == "reasoning"
    hopeless = hopeless and budget is not None and budget < limit < budget + len(CONTROL_IDS) + 1
    refused = isinstance(last, Failed) and last.code == "thinking_budget_capacity_insufficient"
    assert hopeless or not refused
    assert not (hopeless and isinstance(last, Finished))


def check_admissions(bench: Bench[SimulatedProgram]) -> int:
    """First in, first out, except where overtaking was safe: the one overtaken did not fit, and would still have
    fitted beside the one that overtook and all others that had since it came to a halt. -> how often that was."""
    capacities = bench.plan.capacities
    waiting = list(bench.submitted)
    active: set[int] = set()
    head: int | None = None
    donors: set[int] = set()
    overtaken = 0

    def pages(requests: set[int]) -> int:
        return sum(reserved_pages(bench, request_id) for request_id in requests)

    for kind, request_id in bench.observer.timeline:
        if kind == "ended":
            active.discard(request_id)
            if request_id in waiting:
                waiting.remove(request_id)
            continue
        first = next(each for each in waiting if each == request_id or was_admissible(bench, each))
        if first != request_id:
            overtaken += 1
            if head != first:
                head, donors = first, set(active)
            beside = {first, request_id} | (active - donors)
            assert active & donors, f"{request_id} overtook {first}, which nothing held up any more"
            assert pages(beside) <= capacities.kv_pages and len(beside) <= capacities.max_concurrency
            full = len(active) == capacities.max_concurrency
            assert full or pages(active | {first}) > capacities.kv_pages, f"{request_id} overtook {first}, which fitted"
        waiting.remove(request_id)
        active.add(request_id)
        assert pages(active) <= capacities.kv_pages and len(active) <= capacities.max_concurrency
    return overtaken


def was_admissible(bench: Bench[SimulatedProgram], request_id: int) -> bool:
    """Whether the request ever stood in the line: it was admitted, or it ended in it and not before it."""
    if request_id in bench.observer.admissions:
        return True
    last = bench.observer.last[request_id]
    return isinstance(last, Failed) and last.code in ("client_disconnected", "request_queue_timeout")


def reserved_pages(bench: Bench[SimulatedProgram], request_id: int) -> int:
    """Pages of the whole prompt and the effective output (contract EXEC-8)."""
    submit, capacities = bench.submitted[request_id], bench.plan.capacities
    prompt = len(submit.token_ids)
    return pages_for(prompt + min(submit.max_output_tokens, capacities.max_context - prompt), capacities.page_tokens)


def run_history(seed: int, actions: int) -> Counter[str]:
    """The whole history of this name; see `check_history`."""
    draw = random.Random(seed)
    bench = random_machine(draw).bench()
    bench.ahead = seed % 2 == 1
    try:
        play(bench, random_actions(draw, actions))
        bench.finish()
        return check_history(bench)
    except AssertionError as error:
        raise AssertionError(f"history {seed} of {actions} actions: {error}") from error
