"""Programs of a few layers at published shapes on a CUDA device: kernels against the reference, captured rounds against
launched ones, and a request among others against the request alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from ninfer_core.api import ForwardBatch, Model, RecurrentState
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.plan.device import find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.tolerances import BF16_EXPERT_LOGITS, BF16_LOGITS, Agreement
from tests.gpu.first_layers import first_layers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CASES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "dense": ("qwen3.8-27b", {}),
    "dense in fp8": ("qwen3.8-27b", {"weights": "fp8", "kv_dtype": "fp8"}),
    "experts": ("qwen3.6-35b-a3b", {}),
}
LAYERS = 4
MIXES = 200
ANSWER_TOKENS = 9
FORCED = (11, 12, 13)
"""What is put behind the third token of every third request, as the end of thinking is."""


@dataclass
class Recorded:
    """A model that keeps the logits it gives."""

    model: Model
    logits_rows: list[torch.Tensor] = field(default_factory=list)

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        return self.model.prefill(batch)

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        return self.model.decode(batch)

    def fold(self, state: RecurrentState) -> None:
        self.model.fold(state)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self.model.logits(hidden)
        self.logits_rows.append(logits.float())
        return logits


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


def build(
    case: str, registry: PluginRegistry, recorded: list[Recorded] | None = None, **options: object
) -> DeviceProgram:
    """With `recorded`, rounds are launched and the model's logits are kept there."""
    name, more = CASES[case]
    chosen = ServeOptions(device=0, max_concurrency=8, max_context=4096, kv_capacity=8 * 4096, **more, **options)  # type: ignore[arg-type]
    handle = first_layers(open_artifact(f"dummy:{name}", registry).header, LAYERS)
    if chosen.weights is not None:
        (offer,) = registry.offers("family")
        handle = encoded_artifact(handle, registry.load(offer), chosen.weights)
    plan = resolve(chosen, registry, handle.header, find_device(chosen, probe_gpus()))

    def record(model: Model) -> Model:
        assert recorded is not None
        recorded.append(Recorded(model))
        return recorded[0]

    with handle.open_weights() as weights:
        return build_program(
            plan,
            handle.header,
            weights,
            registry,
            device_of(plan),
            lambda phase, seconds: None,
            None if recorded is None else record,
        )


def prompt(seed: int) -> list[int]:
    draw = random.Random(seed)
    return draw.choices(range(50_000), k=draw.choice((1, 5, 63, 64, 65, 130, 300)))


def sampling(seed: int) -> Sampling:
    """Greedy for every other seed."""
    return Sampling(
        temperature=float(seed % 2),
        top_p=0.95,
        top_k=20,
        min_p=0.0,
        presence_penalty=0.5,
        frequency_penalty=0.0,
        seed=seed,
    )


def generate(program: DeviceProgram, seeds: Sequence[int], joined: Sequence[int]) -> list[list[int]]:
    """The answers of these prompts; request i joins when the first ones have `joined[i]` tokens."""
    rows: dict[int, int] = {}
    made: list[list[int]] = [[] for _ in seeds]
    for boundary in range(max(joined) + ANSWER_TOKENS):
        for each, seed in enumerate(seeds):
            if joined[each] == boundary:
                tokens = prompt(seed)
                row = program.open_row(RowSetup(len(tokens), len(tokens) + ANSWER_TOKENS + len(FORCED), sampling(seed)))
                assert row is not None
                first = program.prefill(row, tokens, last=True)
                assert first is not None
                rows[each] = row
                made[each].append(first)
        if rows:
            taking = list(rows)
            rounds = [RowRound(row=rows[each], accepted=1) for each in taking]
            for each, candidates in zip(taking, program.decode(rounds), strict=True):
                made[each].extend(candidates)
                if len(made[each]) == ANSWER_TOKENS:
                    program.close_row(rows.pop(each))
                elif len(made[each]) == 3 and seeds[each] % 3 == 0:
                    program.control(RowRound(row=rows[each], accepted=1), FORCED)
    return made


@pytest.mark.parametrize(("case", "tolerance"), [("dense", BF16_LOGITS), ("experts", BF16_EXPERT_LOGITS)])
def test_kernels_agree_with_the_reference(case: str, tolerance: Agreement, registry: PluginRegistry) -> None:
    """Prompts and rounds that are told what to say next, so that both go on from the same tokens. In fp8 kernels round
    the inputs of a prefill too, which the reference does not; `ninfer bench engine` checks that layer by layer."""
    logits = []
    for kernels in ("auto", "reference"):
        recorded: list[Recorded] = []
        program = build(case, registry, recorded, kernels=kernels, no_cuda_graph=True)
        recorded[0].logits_rows.clear()
        rows = []
        for seed in range(6):
            tokens = prompt(seed)
            row = program.open_row(RowSetup(len(tokens), len(tokens) + 40, sampling(0)))
            assert row is not None
            program.prefill(row, tokens, last=True)
            rows.append(row)
        for step in range(16):
            for place, row in enumerate(rows):
                with torch.inference_mode():
                    program._pools.rows.candidates[row, 0] = 1000 * place + 7 * step
            program.decode([RowRound(row=row, accepted=1) for row in rows])
        logits.append(torch.cat(recorded[0].logits_rows))
        del program, recorded
        torch.cuda.empty_cache()
    tolerance.check(*logits)


@pytest.fixture(scope="module", params=CASES)
def program(request: pytest.FixtureRequest, registry: PluginRegistry) -> Iterator[DeviceProgram]:
    program = build(request.param, registry)
    yield program
    del program
    torch.cuda.empty_cache()


@pytest.mark.contract("EXEC-2", "OPT-29")
def test_captured_rounds_have_the_bits_of_launched_ones(program: DeviceProgram) -> None:
    captured = program._rounds
    outcomes = []
    for rounds in (captured, program._launched):
        program._rounds = rounds
        made = generate(program, range(8), [0, 0, 1, 2, 3, 5, 6, 6])
        pools = program._pools
        outcomes.append((made, {name: pool.clone() for name, pool in (pools.state | pools.records).items()}))
    program._rounds = captured
    (made, state), (launched, launched_state) = outcomes
    assert made == launched
    for name, pool in state.items():
        assert torch.equal(pool, launched_state[name]), name


def test_a_request_gets_among_others_what_it_gets_alone(program: DeviceProgram) -> None:
    alone = [generate(program, [seed], [0])[0] for seed in range(24)]
    draw = random.Random(5)
    for _ in range(MIXES):
        seeds = draw.sample(range(24), draw.randint(2, 8))
        joined = [draw.randrange(4) for _ in seeds]
        joined[0] = 0
        assert generate(program, seeds, joined) == [alone[seed] for seed in seeds]
    assert program.open_rows == 0
