"""Near ties of some layers of a 27B shape, whose weights are random."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
import torch

from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from tests.gpu.near_ties import DRAFTERS, LONGEST_PROMPT, PROMPTS, Subject, check, make_subject
from tests.program.compile_plan import few_layers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def subject(registry: PluginRegistry) -> Subject:
    draw = random.Random(3)
    prompts = [draw.choices(range(50_000), k=draw.randint(1, LONGEST_PROMPT)) for _ in range(PROMPTS)]
    return make_subject("27b", few_layers(open_artifact("dummy:qwen3.8-27b", registry)), registry, prompts)


@pytest.mark.contract("EXEC-19")
@pytest.mark.parametrize("name", DRAFTERS)
def test_text_with_drafts_differs_at_near_ties_alone(
    subject: Subject, name: str, report: Callable[[str, Mapping[str, object]], None]
) -> None:
    found = check(subject, name, may_keep_none=name in ("mtp", "dflash2"))
    report(f"near-ties-{subject.name}-{name.replace(' ', '-')}", found)
