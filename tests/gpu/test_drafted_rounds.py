"""Rounds with drafts on a CUDA device, over a few layers of a published shape: captured ones against launched ones,
text told beforehand against text found, memory against the ledger."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ninfer_core.api import DrafterNeeds, ExecutionPlan
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.plan.device import find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import RowRound, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import (
    BACKEND,
    Adversary,
    Fickle,
    with_drafter,
    with_needs,
)
from tests.program.compile_plan import few_layers
from tests.program.drafted import begin, next_rounds

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

OUTPUT = 24
PROMPTS = [[(7 * place + 13 * length) % 2500 for place in range(length)] for length in (5, 64, 65, 200, 1, 30, 128, 90)]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def freed() -> Iterator[None]:
    yield
    gc.collect()
    torch.cuda.empty_cache()


def sampling(number: int) -> Sampling:
    return Sampling(
        temperature=1.0 if number % 2 else 0.0,
        top_p=0.95,
        top_k=20,
        min_p=0.0,
        presence_penalty=0.5,
        frequency_penalty=0.0,
        seed=number,
    )


def build(
    registry: PluginRegistry, weights: str = "bf16", allocated: dict[str, int] | None = None, **options: Any
) -> tuple[DeviceProgram, ExecutionPlan, Adversary]:
    handle = few_layers(open_artifact("dummy:qwen3.8-27b", registry))
    if weights != "bf16":
        (offer,) = registry.offers("family")
        handle = encoded_artifact(handle, registry.load(offer), weights)
    header = with_needs(handle.header, DrafterNeeds())
    asked = ServeOptions(device=0, max_concurrency=8, max_context=512, kv_capacity=8 * 512, **options)
    plan = resolve(asked, registry, header, find_device(asked, probe_gpus()))
    slots, context = plan.capacities.state_slots, plan.capacities.max_context
    texts = torch.zeros(slots, context, dtype=torch.int64, device="cuda")
    drafter = Fickle(plan.capacities.draft_tokens, plan.token_domain, texts)
    before, sizes = torch.cuda.memory_allocated(), {} if allocated is None else allocated

    def on_phase(name: str, seconds: float) -> None:
        sizes[name] = torch.cuda.memory_allocated() - before

    with handle.open_weights() as source:
        program = build_program(plan, with_drafter(header, drafter), source, registry, device_of(plan), on_phase)
    return program, plan, drafter


def run(program: DeviceProgram, drafter: Adversary, texts: list[list[int]] | None) -> tuple[list[list[int]], int]:
    """All prompts together -> texts, and drafts that were kept; `texts` are what the drafter knows."""
    rows, made, kept = [], [], 0
    for number, tokens in enumerate(PROMPTS):
        row, candidate = begin(program, tokens, sampling(number), OUTPUT, chunk=512)
        known = torch.tensor([*tokens, *([] if texts is None else texts[number])])
        drafter.texts[row].zero_()
        drafter.texts[row, : len(known)].copy_(known)
        rows.append(row)
        made.append([candidate])
    accepted = dict.fromkeys(rows, 1)
    while accepted:
        for row, (candidates, _) in next_rounds(program, accepted).items():
            text = made[rows.index(row)]
            accepted[row] = taken = min(len(candidates), OUTPUT - len(text))
            text.extend(candidates[:taken])
            kept += len(candidates) - 1
            if len(text) == OUTPUT:
                program.close_row(row)
                del accepted[row]
    return made, kept


@pytest.mark.parametrize("draft_tokens", [3, 15])
def test_what_is_known_of_a_text_does_not_change_it(draft_tokens: int, registry: PluginRegistry) -> None:
    """The same columns, checked at another place of a round: bit for bit the same logits."""
    program, _, drafter = build(registry, spec=BACKEND, draft_tokens=draft_tokens)
    found, _ = run(program, drafter, None)
    again, kept = run(program, drafter, found)
    assert again == found and kept > 0


@pytest.mark.parametrize(("weights", "kv_dtype"), [("bf16", "bf16"), ("fp8", "fp8")])
def test_captured_rounds_are_launched_ones(weights: str, kv_dtype: str, registry: PluginRegistry) -> None:
    texts, kept = [], []
    for no_cuda_graph in (False, True):
        options = {"spec": BACKEND, "draft_tokens": 3, "kv_dtype": kv_dtype, "no_cuda_graph": no_cuda_graph}
        program, _, drafter = build(registry, weights, **options)
        first, _ = run(program, drafter, None)
        text, count = run(program, drafter, first)
        texts.append([first, text])
        kept.append(count)
        del program, drafter
        gc.collect()
    assert texts[0] == texts[1] and kept[0] == kept[1] > 0


@pytest.mark.parametrize(("spec", "draft_tokens"), [("mtp", 3), ("dflash2", 7)])
def test_captured_rounds_of_backends_are_launched_ones(spec: str, draft_tokens: int, registry: PluginRegistry) -> None:
    texts = []
    for no_cuda_graph in (False, True):
        program, _, drafter = build(registry, spec=spec, draft_tokens=draft_tokens, no_cuda_graph=no_cuda_graph)
        texts.append(run(program, drafter, None))
        del program, drafter
        gc.collect()
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("spec", "draft_tokens"), [(BACKEND, 15), ("mtp", 3)])
def test_the_memory_of_a_row_is_the_ledgers(spec: str, draft_tokens: int, registry: PluginRegistry) -> None:
    allocated: dict[str, int] = {}
    _, plan, _ = build(registry, "bf16", allocated, spec=spec, draft_tokens=draft_tokens)
    pools = ("kv_pages", "recurrent_state", "round_records", "row_buffers", "drafter_state", "round_features")
    planned = sum(plan.ledger.line(name).bytes for name in pools)
    assert abs(allocated["pools"] - allocated["weights"] - planned) <= plan.capacities.max_concurrency * MIB


def test_forced_tokens_behind_a_captured_round(registry: PluginRegistry) -> None:
    """As if the prompt had ended with them, drafts included."""
    program, _, drafter = build(registry, spec="mtp", draft_tokens=3)
    tokens, forced = PROMPTS[2], [10, 20, 30]
    row, candidate = begin(program, tokens, sampling(0), 60, chunk=512)
    ((candidates, _),) = next_rounds(program, {row: 1}).values()
    taken = min(2, len(candidates))
    program.control(RowRound(row=row, accepted=taken), forced)
    ((after, drafted),) = next_rounds(program, {row: 1}).values()
    program.close_row(row)
    assert drafted == 3 and 1 <= len(after) <= 4
    assert all(0 <= token < drafter.token_domain for token in (candidate, *candidates, *after))
