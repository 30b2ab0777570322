"""Captured rounds that nobody has seen when the next one is launched: the text and the drafts of rounds one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.scripted_drafters import BACKEND
from tests.gpu.test_drafted_rounds import OUTPUT, PROMPTS, build, run, sampling
from tests.program.drafted import AheadOfUnits, generate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

WISHES = [(tokens, sampling(number)) for number, tokens in enumerate(PROMPTS)]


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        ("bf16", {"spec": BACKEND, "draft_tokens": 3}),
        ("fp8", {"spec": "mtp", "draft_tokens": 3, "lm_head_draft": True, "kv_dtype": "fp8"}),
        ("bf16", {"spec": "dflash2", "draft_tokens": 7}),
    ],
    ids=["told", "mtp", "dflash2"],
)
def test_rounds_ahead_change_no_token(weights: str, options: dict[str, Any], registry: PluginRegistry) -> None:
    """Drafts that are drawn decide how a sampled text goes on, so that there all that is offered is taken."""
    program, _, drafter = build(registry, weights, **options)
    assert program.goes_ahead
    found, _ = run(program, drafter, None)
    known = options["spec"] == BACKEND

    def on_open(row: int, wish: int) -> None:
        told = torch.tensor([*PROMPTS[wish], *(found[wish] if known else ())])
        drafter.texts[row].zero_()
        drafter.texts[row, : len(told)].copy_(told)

    for seed in range(2):
        cuts = options["spec"] != "dflash2"
        ahead = AheadOfUnits(program, WISHES, OUTPUT, random.Random(seed), cuts=cuts, on_open=on_open, chunk=512)
        assert ahead.run() == found
        assert ahead.seen["ahead"] > 8


def test_rounds_ahead_without_drafts(registry: PluginRegistry) -> None:
    program, _, _ = build(registry)
    expected = [generate(program, *wish, OUTPUT) for wish in WISHES]
    for seed in range(2):
        assert AheadOfUnits(program, WISHES, OUTPUT, random.Random(seed), cuts=False).run() == expected
