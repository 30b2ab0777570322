"""The text model against transformers, in float32 on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ninfer_core.testing.family import FamilyConformance, FamilySubject
from ninfer_core.testing.tolerances import FP32_LOGITS


class TestDense(FamilyConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, make_checkpoint: Callable[..., Any]) -> FamilySubject:
        subject: FamilySubject = make_checkpoint().subject()
        return subject


class TestMoe(FamilyConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, make_checkpoint: Callable[..., Any]) -> FamilySubject:
        subject: FamilySubject = make_checkpoint(moe=True).subject()
        return subject


VARIANTS: dict[str, dict[str, Any]] = {
    "vision-language class": {"wrapped": True},
    "vision-language class with experts": {"wrapped": True, "moe": True},
    "tied head": {"tie_word_embeddings": True},
    "YaRN": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000,
            "partial_rotary_factor": 0.5,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "mrope_interleaved": True,
            "mrope_section": [3, 3, 2],
        }
    },
    "odd layer types": {"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
    "one key head": {"linear_num_key_heads": 1, "num_key_value_heads": 1},
    "equal heads": {"linear_num_value_heads": 2, "num_key_value_heads": 4},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_have_the_logits_of_the_oracle(name: str, make_checkpoint: Callable[..., Any]) -> None:
    subject = make_checkpoint(**VARIANTS[name]).subject()
    FamilyConformance().test_prefill_has_the_logits_of_the_oracle(subject)


def test_positions_of_three_axes_turn_as_in_the_oracle(make_checkpoint: Callable[..., Any]) -> None:
    checkpoint = make_checkpoint()
    subject = checkpoint.subject()
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 512, (40,), generator=generator)
    positions = torch.randint(0, 300, (3, 1, 40), generator=generator)
    with torch.inference_mode():
        expected = checkpoint.reference(input_ids=tokens.unsqueeze(0), position_ids=positions, use_cache=False).logits[
            0
        ]
        run = subject.harness()
        run.begin(0)
        batch = run.batch([0], [tokens.tolist()], [0], prefill=True)
        hidden = subject.model.prefill(dataclasses.replace(batch, positions=positions))
    FP32_LOGITS.check(run.logits(hidden)[0], expected)
    plain = subject.oracle(tokens.tolist())
    assert (plain - expected).abs().max() > 0.1, "the positions made no difference: nothing was tested"
