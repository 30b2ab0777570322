"""The embedded model on a CUDA device in bf16: a trained model's answers are those of the CPU in float32."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from ninfer_core.api import GenerationRequest, Message, TextPart, ThinkingDefaults
from ninfer_core.artifact import open_artifact
from ninfer_core.plan.device import find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve_for_serving
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import RowRound, RowSetup, Sampling

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=1, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)
QUESTIONS = (
    "What is the capital of France?",
    "Sort 42, 7, 19.",
    "What is 123 + 456?",
    "Hello!",
    "Convert 3 kilometers to meters.",
    "Spell apple backwards.",
    "Who are you?",
    "Reverse the list: red, blue, green.",
)


def answers(device: int | str, registry: PluginRegistry) -> list[list[int]]:
    artifact = open_artifact(None, registry)
    options = ServeOptions(device=device, max_concurrency=8)
    resolution = resolve_for_serving(options, registry, artifact.header, find_device(options, probe_gpus()))
    plan, frontend = resolution.plan, resolution.frontend
    prompts = [
        frontend.prepare(
            GenerationRequest(messages=(Message(role="user", content=(TextPart(question),)),)), ThinkingDefaults()
        ).token_ids
        for question in QUESTIONS
    ]
    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, device_of(plan), lambda name, seconds: None)
    rows, made = [], []
    for prompt in prompts:
        row = program.open_row(RowSetup(len(prompt), len(prompt) + 64, GREEDY))
        assert row is not None
        first = program.prefill(row, prompt, last=True)
        assert first is not None
        rows.append(row)
        made.append([first])
    for _ in range(63):
        for tokens, candidates in zip(
            made, program.decode([RowRound(row=row, accepted=1) for row in rows]), strict=True
        ):
            tokens.extend(candidates)
    program.close()
    return [until_stop(tokens, frontend.stop_token_ids) for tokens in made]


def until_stop(tokens: Sequence[int], stop_token_ids: Sequence[int]) -> list[int]:
    ends = [place for place, token in enumerate(tokens) if token in stop_token_ids]
    return list(tokens[: ends[0] + 1] if ends else tokens)


def test_a_trained_model_answers_in_bf16_as_in_float32() -> None:
    registry = PluginRegistry.discover()
    assert answers(0, registry) == answers("cpu", registry)
