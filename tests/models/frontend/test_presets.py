from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend import QwenFrontend

from ninfer_core.api import ArtifactInvalid, SamplingOptions

FrontendOf = Callable[..., QwenFrontend]


def values(options: SamplingOptions) -> tuple[float | None, ...]:
    assert options.frequency_penalty == 0
    assert options.seed is None
    return (options.temperature, options.top_p, options.top_k, options.min_p, options.presence_penalty)


def with_config(frontend_of: FrontendOf, config: dict[str, Any], model_id: str = "somebody-12b") -> QwenFrontend:
    return frontend_of("3.8", model_id, generation_config_json=json.dumps(config).encode())


@pytest.mark.contract("OPT-46")
@pytest.mark.parametrize(
    ("model_id", "thinking_presence"),
    [
        *(("qwen3.6-27b", 0), ("Qwen3.8-27B", 0), ("qwen3_8_27b", 0), ("Qwen/Qwen3.6-27B-FP8", 0)),
        *(("qwen3.6-35b-a3b", 1.5), ("Qwen3.6-35B-A3B-NVFP4", 1.5)),
    ],
)
def test_registered_models(model_id: str, thinking_presence: float, frontend_of: FrontendOf) -> None:
    presets = with_config(frontend_of, {"temperature": 0.3}, model_id).presets
    assert values(presets.thinking) == (1.0, 0.95, 20, 0, thinking_presence)
    assert values(presets.non_thinking) == (0.7, 0.8, 20, 0, 1.5)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, (1.0, 0.95, 20, 0, 0)),
        ({"temperature": 0.6, "top_p": 0.9, "top_k": 7, "min_p": 0.05}, (0.6, 0.9, 7, 0.05, 0)),
        ({"do_sample": False, "temperature": 0.6}, (0, 0.95, 20, 0, 0)),
        ({"do_sample": True, "temperature": 1, "top_k": 50}, (1, 0.95, 20, 0, 0)),
        ({"top_k": 0}, (1.0, 0.95, 20, 0, 0)),
    ],
)
def test_other_models_have_their_own(
    config: dict[str, Any], wanted: tuple[float, ...], frontend_of: FrontendOf
) -> None:
    """Decision 21."""
    presets = with_config(frontend_of, config, "Qwen3.6-27B-somebodys-own").presets
    assert values(presets.thinking) == values(presets.non_thinking) == wanted


def test_values_out_of_range_are_all_named(frontend_of: FrontendOf) -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        with_config(frontend_of, {"temperature": -1, "top_p": 3, "top_k": -2})
    assert len(caught.value.problems) == 3
    with pytest.raises(ArtifactInvalid, match=r"generation_config\.json"):
        with_config(frontend_of, {"top_k": "many"})


def test_stop_tokens(frontend_of: FrontendOf, small_resources: dict[str, bytes]) -> None:
    ids = frontend_of("3.8")._tokenizer.control.id_of
    im_end, end_of_text = ids["<|im_end|>"], ids["<|endoftext|>"]
    assert frontend_of("3.8").stop_token_ids == (im_end,)
    assert with_config(frontend_of, {"eos_token_id": 5}).stop_token_ids == (5,)
    assert with_config(frontend_of, {"eos_token_id": [im_end, end_of_text, im_end]}).stop_token_ids == (
        im_end,
        end_of_text,
    )
    assert with_config(frontend_of, {"eos_token_id": []}).stop_token_ids == (im_end,)
    config = json.loads(small_resources["tokenizer_config.json"])
    config["eos_token"] = {"content": "<|endoftext|>", "special": True}
    other = frontend_of("3.8", tokenizer_config_json=json.dumps(config).encode())
    assert other.stop_token_ids == (end_of_text,)
    with pytest.raises(ArtifactInvalid, match="999999"):
        with_config(frontend_of, {"eos_token_id": [im_end, 999_999]})
    config["eos_token"] = "<nobody>"
    with pytest.raises(ArtifactInvalid, match="<nobody>"):
        frontend_of("3.8", tokenizer_config_json=json.dumps(config).encode())
