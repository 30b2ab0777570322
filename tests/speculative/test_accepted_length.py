"""What rounds accept on the embedded model is what the drafters accepted when they were measured in training."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.draft import DRAFT_CONFIG

from ninfer_core.api import ArtifactHeader
from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.tiny import tiny_plan
from tests.speculative.offline import BACKENDS, Offline
from tools.tiny_model.draft_measure import prompts_of
from tools.tiny_model.tokenizer import id_of, load

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)
LEAST_AGREEMENT = 0.01
"""By how much the mean may be off (issue 7): for near ties, which arithmetic in another order turns."""


def build(backend: str, **options: object) -> DeviceProgram:
    registry = PluginRegistry.discover()
    artifact = open_artifact(None, registry)
    header = first_version(artifact.header) if backend == "dflash" else artifact.header
    drafting = {"spec": backend, "draft_tokens": BACKENDS[backend], "max_concurrency": 4, "kv_capacity": "auto"}
    plan = tiny_plan(registry, header, **{**drafting, **options})
    with artifact.open_weights() as weights:
        return build_program(plan, header, weights, registry, torch.device("cpu"), lambda name, seconds: None)


def first_version(header: ArtifactHeader) -> ArtifactHeader:
    """The DFlash that the embedded DFlash2 was made from: DFlash2 has more tensors, and the same ones beside them."""
    config = json.loads(header.resources[DRAFT_CONFIG]) | {"architectures": ["DFlashDraftModel"]}
    for key in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
        del config["dflash_config"][key]
    kept = tuple(spec for spec in header.tensors if "_conv." not in spec.name and "candidate_selector" not in spec.name)
    resources = dict(header.resources) | {DRAFT_CONFIG: json.dumps(config).encode()}
    return msgspec.structs.replace(header, resources=resources, tensors=kept)


@cache
def offline() -> Offline:
    return Offline(open_artifact(None, PluginRegistry.discover()))


@cache
def stop() -> int:
    return int(id_of(load(), "<|im_end|>"))


def answer(program: DeviceProgram, prompt: list[int], most: int) -> tuple[list[int], list[int]]:
    """Greedy, to the end -> its tokens, and how many each round gave."""
    row = program.open_row(RowSetup(len(prompt), len(prompt) + most, GREEDY))
    assert row is not None
    first = program.prefill(row, prompt, last=True)
    assert first is not None
    said, offered, accepted = [first], [], 1
    while said[-1] != stop() and len(said) < most:
        (candidates,) = program.decode([RowRound(row=row, accepted=accepted)])
        offered.append(len(candidates))
        end = candidates.index(stop()) + 1 if stop() in candidates else len(candidates)
        said.extend(candidates[:end])
        accepted = end
    program.close_row(row)
    return said, offered


def compare(backend: str, kind: str, count: int, most: int, **options: object) -> None:
    program = build(backend, **options)
    mine: list[int] = []
    theirs: list[int] = []
    for prompt in prompts_of(kind, count):
        said, offered = answer(program, prompt, most)
        wanted = offline().rounds(backend, [*prompt, *said], len(prompt))
        # The last round may have looked beyond the end.
        mine.extend(offered[:-1])
        theirs.extend(wanted[:-1])
    tokens = sum(theirs)
    assert len(theirs) > 4 * count and tokens / len(theirs) > 1.5, "nothing was drafted that is worth it"
    assert abs(sum(mine) / len(mine) - tokens / len(theirs)) <= LEAST_AGREEMENT * tokens / len(theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_accept_what_was_measured(backend: str) -> None:
    compare(backend, "structured", 3, 60)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["structured", "free"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_accept_what_was_measured_on_many_prompts(backend: str, kind: str) -> None:
    compare(backend, kind, 40, 160)
