"""Random histories on the real program and the tiny random model: whoever is left alone gets what it gets alone, and
when all is over nothing is held: no row, page, slot, request or file descriptor."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from ninfer_core.api import ExecutionPlan, Frontend
from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

MAX_CONTEXT = 256
Outcome = tuple[dict[str, str], str, str | None, object]


@dataclass
class Played:
    """A program that many histories run on, and a pool of requests whose undisturbed outcomes are known."""

    plan: ExecutionPlan
    program: DeviceProgram
    frontend: Frontend
    pool: list[dict[str, Any]]
    alone: list[Outcome]

    def bench(self, *, ahead: bool = False) -> Bench[DeviceProgram]:
        return Bench(self.plan, self.program, self.frontend, ahead=ahead)

    def answer(self, wish: dict[str, Any]) -> Outcome:
        """What the request gets alone."""
        bench = self.bench()
        bench.submit(**wish)
        bench.finish()
        return outcome(bench, 0)

    def history(self, seed: int) -> Counter[str]:
        """Bursts of submits, boundaries, cancels; some wait in vain; every other history goes ahead where the program
        does. -> what has happened how often."""
        draw = random.Random(seed)
        bench, chosen = self.bench(ahead=seed % 2 == 1), []
        for _ in range(draw.randint(2, 5)):
            wish = draw.randrange(len(self.pool))
            chosen.append(wish)
            bench.submit(**self.pool[wish], wait_seconds=draw.choice((1e9, 1e9, 0.2)))
            bench.step(draw.choice((0, 0, 1, 3, 8)))
            if draw.random() < 0.3:
                bench.cancel(draw.randrange(len(chosen)))
            bench.clock.now += draw.random() / 4
        bench.finish()
        bench.check_nothing_leaked()
        assert bench.observer.fatal == [], f"history {seed}"
        return sum((self._ended(bench, each, wish) for each, wish in enumerate(chosen)), Counter[str]())

    def _ended(self, bench: Bench[DeviceProgram], request_id: int, wish: int) -> Counter[str]:
        last, text = bench.observer.last[request_id], bench.observer.text[request_id]
        if isinstance(last, Finished):
            assert outcome(bench, request_id) == self.alone[wish], f"request {wish}"
            return Counter({last.reason: 1, "control": int(last.usage.thinking_control_applied)})
        assert last.code in ("client_disconnected", "request_queue_timeout"), last
        for channel, whole in self.alone[wish][0].items():
            assert whole.startswith(text[channel])
        return Counter({last.code: 1})


def outcome(bench: Bench[DeviceProgram], request_id: int) -> Outcome:
    last = bench.observer.last[request_id]
    assert isinstance(last, Finished), last
    return (dict(bench.observer.text[request_id]), last.reason, last.stop_string, last.usage)


def random_wish(draw: random.Random, control_tokens: int) -> dict[str, Any]:
    """Arguments of `Bench.submit`: prompts around page and chunk edges, every setting of the sampler, all limits."""
    prompt = draw.choice((1, 9, 63, 64, 65, 130, MAX_CONTEXT - 4))
    thinking_budget = draw.choice((1, 2, 5)) if prompt < 70 and draw.random() < 0.3 else None
    output = draw.choice((0, 1, 6, 12))
    if thinking_budget is not None:
        output = draw.choice((thinking_budget, thinking_budget + control_tokens + draw.randint(1, 8)))
    return {
        "token_ids": tuple(draw.choices(range(256), k=prompt)),
        "sampled": Sampling(
            temperature=draw.choice((0.0, 0.7, 1.0, 3.0)),
            top_p=draw.choice((1.0, 0.8)),
            top_k=draw.choice((20, 3)),
            min_p=draw.choice((0.0, 0.05)),
            presence_penalty=draw.choice((0.0, 1.5, -1.0)),
            frequency_penalty=draw.choice((0.0, 0.5)),
            seed=draw.randrange(1 << 64),
        ),
        "channel": "content" if thinking_budget is None and draw.random() < 0.6 else "reasoning",
        "thinking_budget": thinking_budget,
        "max_output_tokens": output,
    }


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "experts"])
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """The pool of pages is too small for four requests at once, so that they wait for each other."""
    registry = PluginRegistry.discover()
    torch.set_num_threads(1)
    (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]
    artifact = tiny_artifact(experts=request.param)
    plan = tiny_plan(
        registry, artifact.header, max_context=MAX_CONTEXT, max_concurrency=4, kv_capacity=MAX_CONTEXT + 5 * 64
    )
    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, torch.device("cpu"), lambda *_: None)
    frontend = registry.load(offer).hook.ninfer_family_frontend(header=artifact.header)
    yield play_alone(plan, program, frontend)


def play_alone(plan: ExecutionPlan, program: DeviceProgram, frontend: Frontend) -> Played:
    """A pool of requests, of which some stop in the midst of what they get, and what each gets alone."""
    draw = random.Random(7)
    pool = [random_wish(draw, len(frontend.thinking_control_ids)) for _ in range(40)]
    ready = Played(plan, program, frontend, pool, [])
    for wish in pool:
        text = ready.answer(wish)[0]
        stoppable = [channel for channel in text if len(text[channel]) > 2]
        if stoppable and draw.random() < 0.4:
            written = text[draw.choice(stoppable)]
            begin = draw.randrange(len(written) - 1)
            wish["stop"] = (written[begin : begin + 2], "never written")
        ready.alone.append(ready.answer(wish))
    return ready


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if os.name == "posix" else 0


def play_many(played: Played, seeds: range) -> Counter[str]:
    before = open_files()
    seen = sum((played.history(seed) for seed in seeds), Counter[str]())
    assert open_files() == before
    return seen


@pytest.mark.contract("EXEC-1", "EXEC-2", "EXEC-8", "EXEC-22", "TMPL-12", "CHAT-11")
def test_random_histories_change_no_text(played: Played) -> None:
    seen = play_many(played, range(15))
    assert {"client_disconnected", "output_limit", "stop_string", "control"} <= {
        what for what, count in seen.items() if count
    }


@pytest.mark.long
def test_eight_hundred_histories(played: Played) -> None:
    """Half of them for each of the two models."""
    seen = play_many(played, range(1000, 1400))
    limits = ("request_queue_timeout", "output_limit", "context_capacity", "stop_string")
    assert all(seen[what] for what in ("client_disconnected", *limits, "control"))


def test_the_undisturbed_outcomes_are_not_all_alike(played: Played) -> None:
    assert len({str(each) for each in played.alone}) > 30


@pytest.mark.contract("TMPL-14")
def test_the_control_tokens_of_the_frontend_fit_to_the_token(played: Played) -> None:
    bench = played.bench()
    needed = 3 + len(played.frontend.thinking_control_ids) + 1
    common: dict[str, Any] = {"token_ids": (1, 2, 3), "channel": "reasoning", "thinking_budget": 3}
    refused = bench.submit(**common, max_output_tokens=needed - 1)
    served = bench.submit(**common, max_output_tokens=needed, stop=())
    bench.finish()
    last = bench.observer.last[refused]
    assert isinstance(last, Failed) and last.code == "thinking_budget_capacity_insufficient"
    assert isinstance(bench.observer.last[served], Finished)
