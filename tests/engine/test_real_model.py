"""The engine on the real program and the tiny random model: nothing a request gets depends on what else happens."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

from ninfer_core.api import ExecutionPlan, Frontend
from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan


@dataclass(frozen=True)
class Served:
    plan: ExecutionPlan
    program: DeviceProgram
    frontend: Frontend

    def bench(self) -> Bench[DeviceProgram]:
        return Bench(self.plan, self.program, self.frontend)


@dataclass(frozen=True)
class Wish:
    """One request. `stop` is hit now and then by bytes that are nearly random."""

    token_ids: tuple[int, ...]
    seed: int
    greedy: bool
    max_output_tokens: int
    stop: tuple[str, ...]

    def submit(self, bench: Bench[DeviceProgram]) -> int:
        return bench.submit(
            token_ids=self.token_ids,
            seed=self.seed,
            greedy=self.greedy,
            max_output_tokens=self.max_output_tokens,
            channel="reasoning" if self.seed % 3 == 0 else "content",
            stop=self.stop,
        )


Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def serve() -> Serve:
    registry = PluginRegistry.discover()
    torch.set_num_threads(1)
    (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]

    def serve(*, experts: bool = False, **options: object) -> Served:
        artifact = tiny_artifact(experts=experts)
        plan = tiny_plan(registry, artifact.header, **{"max_context": 256, "max_concurrency": 8, **options})
        with artifact.open_weights() as weights:
            device = torch.device("cpu")
            program = build_program(plan, artifact.header, weights, registry, device, lambda name, seconds: None)
        return Served(plan, program, registry.load(offer).hook.ninfer_family_frontend(header=artifact.header))

    return serve


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "experts"])
def served(request: pytest.FixtureRequest, serve: Serve) -> Iterator[Served]:
    yield serve(experts=request.param, kv_capacity=8 * 256)


def wishes(count: int, seed: int) -> list[Wish]:
    draw = random.Random(seed)
    return [
        Wish(
            token_ids=tuple(draw.randrange(256) for _ in range(draw.choice([1, 9, 63, 64, 65, 130]))),
            seed=draw.randrange(2**64),
            greedy=draw.random() < 0.4,
            max_output_tokens=draw.choice([0, 1, 12, 40]),
            stop=draw.choice([(), ("e", "Z"), ("<|im_end|>",)]),
        )
        for _ in range(count)
    ]


def outcome(bench: Bench[DeviceProgram], request_id: int) -> tuple[object, ...]:
    last = bench.observer.last[request_id]
    assert isinstance(last, Finished), last
    return (bench.observer.text[request_id], last.reason, last.stop_string, last.usage)


def one_at_a_time(served: Served, wanted: list[Wish]) -> list[tuple[object, ...]]:
    alone = []
    for wish in wanted:
        bench = served.bench()
        request_id = wish.submit(bench)
        bench.finish()
        alone.append(outcome(bench, request_id))
    return alone


@pytest.mark.contract("EXEC-1", "EXEC-2")
def test_eight_at_once_get_what_one_at_a_time_gets(served: Served) -> None:
    wanted = wishes(12, seed=1)
    alone = one_at_a_time(served, wanted)
    bench = served.bench()
    ids = [wish.submit(bench) for wish in wanted]
    bench.finish()
    assert [outcome(bench, request_id) for request_id in ids] == alone
    assert len({str(each) for each in alone}) > 6
    bench.check_nothing_leaked()


def test_any_prefill_chunk_gives_the_same_text(serve: Serve) -> None:
    wanted = wishes(6, seed=2)
    texts = [
        one_at_a_time(serve(prefill_chunk=chunk, max_concurrency=1), wanted)  # multiples of 128, by the contract
        for chunk in (128, 256)
    ]
    assert texts[0] == texts[1]


def disturb(served: Served, wanted: list[Wish], alone: list[tuple[object, ...]], seed: int) -> None:
    """Submit, cancel and step at random; whoever was left alone must not have noticed."""
    draw = random.Random(seed)
    bench, ids = served.bench(), []
    for wish in wanted:
        ids.append(wish.submit(bench))
        bench.step(draw.randrange(6))
        if draw.random() < 0.3:
            bench.cancel(draw.choice(ids))
    bench.finish()
    bench.check_nothing_leaked()
    assert bench.observer.fatal == []
    for request_id, expected in zip(ids, alone, strict=True):
        last = bench.observer.last[request_id]
        if isinstance(last, Failed):
            assert last.code == "client_disconnected"
            full = expected[0]
            assert isinstance(full, dict)
            for channel, text in bench.observer.text[request_id].items():
                assert full[channel].startswith(text)
        else:
            assert outcome(bench, request_id) == expected


def test_random_cancels_leak_nothing_and_disturb_nobody(served: Served) -> None:
    wanted = wishes(14, seed=3)
    disturb(served, wanted, one_at_a_time(served, wanted), seed=1)


def test_a_pool_for_one_context_serves_all_in_turn(serve: Serve) -> None:
    wanted = wishes(10, seed=4)
    small = serve(max_concurrency=4, kv_capacity=256)
    disturb(small, wanted, one_at_a_time(small, wanted), seed=2)


PROMPT = tuple(random.Random(7).randrange(256) for _ in range(140))
AGAIN = Wish(token_ids=PROMPT, seed=1, greedy=True, max_output_tokens=30, stop=())


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8"])
def test_ca_01_kv_02_the_same_prompt_again_on_what_others_have_used(serve: Serve, kv_dtype: str) -> None:
    """Rows and pages come back from others: nothing of those may be left in them."""
    fresh, used = (serve(max_concurrency=2, kv_dtype=kv_dtype) for _ in range(2))
    expected = one_at_a_time(fresh, [AGAIN])
    assert one_at_a_time(used, [*wishes(4, seed=5), AGAIN, AGAIN])[-2:] == expected * 2


def test_ca_02_no_output_again_and_again(served: Served) -> None:
    nothing, one = (dataclasses.replace(AGAIN, max_output_tokens=tokens) for tokens in (0, 1))
    outcomes = one_at_a_time(served, [nothing, nothing, one])
    assert outcomes[0] == outcomes[1] and [reason for _, reason, _, _ in outcomes] == ["output_limit"] * 3


@pytest.mark.parametrize("steps", [1, 2, 3, 12, 25])
def test_ca_05_ca_06_left_in_prefill_or_in_decode_and_asked_again(serve: Serve, steps: int) -> None:
    fresh, used = (serve(max_concurrency=1, prefill_chunk=128) for _ in range(2))
    expected = one_at_a_time(fresh, [AGAIN])
    bench = used.bench()
    left = AGAIN.submit(bench)
    bench.step(steps)
    bench.cancel(left)
    again = AGAIN.submit(bench)
    bench.finish()
    assert isinstance(bench.observer.last[left], Failed)
    assert [outcome(bench, again)] == expected
    bench.check_nothing_leaked()


@pytest.fixture(scope="module")
def known(served: Served) -> list[tuple[Wish, tuple[object, ...]]]:
    """Requests, and what each gets alone."""
    wanted = wishes(80, seed=1000)
    return list(zip(wanted, one_at_a_time(served, wanted), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_many_random_cancels(served: Served, known: list[tuple[Wish, tuple[object, ...]]], seed: int) -> None:
    wanted, alone = zip(*random.Random(seed).sample(known, 20), strict=True)
    disturb(served, list(wanted), list(alone), seed)
