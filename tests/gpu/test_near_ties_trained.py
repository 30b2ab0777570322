"""Near ties of a trained model, whose drafters are right most of the time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
import torch

from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from tests.gpu.near_ties import DRAFTERS, LONGEST_PROMPT, PROMPTS, Subject, check, make_subject
from tools.tiny_model.draft_prompts import prompts_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

PER_SKILL = 12
"""Enough for as many prompts as are asked for; all that there may be would take longer to write than to answer."""


@pytest.fixture(scope="module")
def subject(registry: PluginRegistry) -> Subject:
    draw = random.Random(3)
    found = [ids for kind in ("structured", "free") for ids in prompts_of(kind, PROMPTS, PER_SKILL)]
    prompts = draw.sample([ids for ids in found if len(ids) <= LONGEST_PROMPT], PROMPTS)
    return make_subject("trained", open_artifact(None, registry), registry, prompts)


@pytest.mark.contract("EXEC-19")
@pytest.mark.parametrize("name", DRAFTERS)
def test_text_with_drafts_differs_at_near_ties_alone(
    subject: Subject, name: str, report: Callable[[str, Mapping[str, object]], None]
) -> None:
    found = check(subject, name)
    report(f"near-ties-{subject.name}-{name.replace(' ', '-')}", found)
