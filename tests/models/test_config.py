"""Reading of config.json: what is accepted, and that everything wrong is said at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, Yarn, is_ours, parse_config
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.rotation import HEIGHT, TIME, WIDTH, axes, inverse_frequencies

from ninfer_core.api import ArtifactHeader, ArtifactIdentity, ArtifactInvalid, TensorSpec

DENSE = dummy_headers({})["qwen3.8-27b"].config
MOE = dummy_headers({})["qwen3.6-35b-a3b"].config


def _header(config: dict[str, Any], *tensors: str) -> ArtifactHeader:
    return ArtifactHeader(
        source="models/test",
        identity=ArtifactIdentity(model_id="test", weights_id="bf16", family="", format_version=0),
        config=config,
        resources={},
        tensors=tuple(TensorSpec(name=name, shape=(1,), dtype="bfloat16") for name in tensors),
    )


def _parse(config: dict[str, Any], *tensors: str) -> QwenHybridConfig:
    return parse_config(_header(config, *tensors))


def _without(config: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in config.items() if name not in names}


def test_the_published_dense_shape() -> None:
    config = _parse(DENSE)
    assert (config.attention_layers, config.recurrent_layers) == (16, 48)
    assert config.layer_kinds[:4] == ("linear_attention",) * 3 + ("full_attention",)
    assert config.conv_channels == 10240
    assert (config.rope.pairs, config.rope.section, config.rope.theta) == (32, (11, 11, 10), 1e7)
    assert (config.output_gate, config.experts, config.intermediate_size) == ("silu", None, 17408)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), float("-inf"), 10**400, 1e19, 0, True, "1e-6"])
def test_numbers_of_a_config_are_finite(value: object) -> None:
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}
    for name in ("rms_norm_eps", "rope_theta", "factor", "beta_fast", "beta_slow", "attention_factor"):
        rope = {**yarn, **({} if name == "rms_norm_eps" else {name: value})}
        changed = {**DENSE, "rope_parameters": {"rope_theta": 1e7, **rope}}
        if name == "rms_norm_eps":
            changed[name] = value
        with pytest.raises(ArtifactInvalid, match=f"{name} is .*; it must be a number above"):
            _parse(changed)


def test_the_published_expert_shape() -> None:
    config = _parse(MOE)
    assert (config.attention_layers, config.recurrent_layers, config.conv_channels) == (10, 30, 8192)
    assert config.intermediate_size is None
    assert config.experts is not None
    assert (config.experts.count, config.experts.per_token) == (256, 8)


def test_a_vision_language_config_is_the_same_text_model() -> None:
    vision = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "out_hidden_size": 5120}
    config = _parse({"model_type": "qwen3_5", "text_config": DENSE, "vision_config": vision})
    assert config.wrapped
    assert config.vision is not None
    assert (config.vision.depth, config.vision.position_embeddings) == (27, 2304)
    assert config.layer_kinds == _parse(DENSE).layer_kinds


@pytest.mark.parametrize("place", ["rope_scaling", "flat"])
def test_rotary_fields_of_older_configs(place: str) -> None:
    rope = DENSE["rope_parameters"]
    assert isinstance(rope, dict)
    rest = _without(DENSE, "rope_parameters")
    older = {**rest, **rope} if place == "flat" else {**rest, "rope_scaling": rope}
    assert _parse(older) == _parse(DENSE)


def test_explicit_layer_types_win_over_the_interval() -> None:
    kinds = ["full_attention", "linear_attention"] * 32
    assert list(_parse({**DENSE, "layer_types": kinds}).layer_kinds) == kinds


@pytest.mark.parametrize(
    ("value", "gate"), [(None, "silu"), ("silu", "silu"), ("swish", "silu"), ("sigmoid", "sigmoid")]
)
def test_output_gates(value: str | None, gate: str) -> None:
    assert _parse({**DENSE, "output_gate_type": value}).output_gate == gate
    if value is None:
        assert _parse(_without(DENSE, "output_gate_type")).output_gate == gate


def test_where_two_places_disagree_a_head_among_the_tensors_decides() -> None:
    disagreeing = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": DENSE}
    assert _parse(disagreeing).tied_head
    assert not _parse(disagreeing, "lm_head.weight").tied_head


def test_yarn() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144, "rope_theta": 1e7}
    yarn = _parse({**DENSE, "rope_parameters": rope}).rope.yarn
    assert yarn == Yarn(
        factor=4.0,
        original_positions=262144,
        beta_fast=32.0,
        beta_slow=1.0,
        attention_factor=pytest.approx(1.1386, abs=1e-4),
    )


def test_what_published_configs_leave_at_null() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144, "attention_factor": None}
    yarn = _parse({**DENSE, "rope_parameters": rope}).rope.yarn
    assert yarn is not None and yarn.attention_factor == pytest.approx(1.1386, abs=1e-4)
    assert _parse({**DENSE, "rope_scaling": None, "eos_token_id": None, "vision_config": None}) == _parse(DENSE)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "not a number": ({"hidden_size": "5120"}, "hidden_size is '5120'; it must be an integer of at least 1"),
    "a truth value": ({"num_attention_heads": True}, "num_attention_heads is True"),
    "zero": ({"vocab_size": 0}, "vocab_size is 0"),
    "absurd depth": ({"num_hidden_layers": 10**9}, "at most 1024"),
    "ungated attention": ({"attn_output_gate": False}, "attn_output_gate is False; it must be True"),
    "bias": ({"attention_bias": True}, "attention_bias is True; it must be False"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; it must be 'silu'"),
    "output gate": ({"output_gate_type": "tanh"}, "output_gate_type is 'tanh'; it must be silu, swish or sigmoid"),
    "output gate of another kind": ({"output_gate_type": ["silu"]}, "output_gate_type is ['silu']"),
    "layer kind": ({"layer_types": ["sliding_attention"] * 64}, "layer_types"),
    "number of layer kinds": ({"layer_types": ["full_attention"] * 63}, "a list of 64 times"),
    "query heads": ({"num_attention_heads": 22}, "(22) is not a multiple of num_key_value_heads (4)"),
    "value heads": ({"linear_num_value_heads": 40}, "(40) is not a multiple of linear_num_key_heads (16)"),
    "rope type": ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type is 'llama3'"),
    "rope section": ({"rope_parameters": {"mrope_section": [16, 8, 4]}}, "with the sum 32"),
    "rope layout": ({"rope_parameters": {"mrope_interleaved": False}}, "mrope_interleaved is False"),
    "rope share": ({"rope_parameters": {"partial_rotary_factor": 1.5}}, "above 0 and at most 1"),
    "yarn without factor": ({"rope_parameters": {"rope_type": "yarn"}}, "factor is missing"),
    "mixed layers": ({"mlp_only_layers": [3]}, "mlp_only_layers is [3]"),
    "epsilon": ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
    "epsilon of another kind": ({"rms_norm_eps": None}, "rms_norm_eps is None; it must be a number above 0"),
    "rope of another kind": ({"rope_parameters": 5}, "rope_parameters is 5; it must be an object"),
    "older rope of another kind": ({"rope_scaling": [1]}, "rope_scaling is [1]; it must be an object"),
    "end token": ({"eos_token_id": "x"}, "eos_token_id is 'x'; it must be a token id or a list of token ids"),
    "end tokens": ({"eos_token_id": [1, -1]}, "eos_token_id is [1, -1]"),
    "tied head": ({"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false'; it must be true or false"),
    "text fields": ({"text_config": 3}, "text_config is 3; it must be an object"),
    "vision fields": ({"vision_config": "big"}, "vision_config is 'big'; it must be an object"),
    "model type": ({"model_type": "llama"}, "model_type is 'llama'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    fields, message = WRONG[name]
    with pytest.raises(ArtifactInvalid) as refused:
        _parse({**DENSE, **fields})
    assert any(message in problem for problem in refused.value.problems), refused.value.problems


def test_all_problems_at_once_with_the_place_of_each() -> None:
    broken = {**_without(DENSE, "hidden_size", "linear_num_key_heads"), "attention_bias": True, "head_dim": -1}
    vision = {"depth": 0, "hidden_size": 8, "intermediate_size": 8, "out_hidden_size": 7}
    with pytest.raises(ArtifactInvalid) as refused:
        _parse({"text_config": broken, "vision_config": vision})
    found = "\n".join(refused.value.problems)
    for name in ("hidden_size is missing", "linear_num_key_heads is missing", "attention_bias", "head_dim is -1"):
        assert f"text_config.{name}" in found
    assert "vision_config.depth is 0" in found
    assert "vision_config.out_hidden_size is 7" in found


def test_more_choices_than_experts() -> None:
    with pytest.raises(ArtifactInvalid, match="at most num_experts = 4"):
        _parse({**MOE, "num_experts": 4})


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*DENSE, "layer_types", "rope_scaling", "mtp_num_hidden_layers"]), JUNK))
def test_junk_is_refused_or_read_but_nothing_else(fields: dict[str, Any]) -> None:
    try:
        _parse({**DENSE, **fields})
    except ArtifactInvalid as refused:
        assert refused.problems


def test_only_this_family_is_claimed() -> None:
    assert is_ours(DENSE)
    assert is_ours({"text_config": MOE, "model_type": "qwen3_5_moe"})
    assert not is_ours({**DENSE, "model_type": "qwen3_next"})
    assert not is_ours({"model_type": ["qwen3_5"]})
    assert not is_ours({})


def test_axes_are_interleaved() -> None:
    chosen = axes(_parse(DENSE).rope)
    assert [pair for pair, axis in enumerate(chosen) if axis == TIME] == list(range(0, 31, 3))
    assert [pair for pair, axis in enumerate(chosen) if axis == HEIGHT] == list(range(1, 32, 3))
    assert [pair for pair, axis in enumerate(chosen) if axis == WIDTH] == list(range(2, 30, 3))


def test_frequencies_fall_from_one() -> None:
    frequencies = inverse_frequencies(_parse(DENSE).rope)
    assert frequencies[0] == 1.0
    assert frequencies[16] == pytest.approx(1e7**-0.5)
    assert all(later < earlier for earlier, later in pairwise(frequencies))
