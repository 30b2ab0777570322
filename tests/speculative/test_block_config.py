"""A draft config is read whole or refused with everything that is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_speculative import dflash, dflash2
from ninfer_speculative.block.config import FIRST, SECOND
from ninfer_speculative.block.reading import parse_config

from ninfer_core.api import ArtifactHeader, BuildShape, Geometry, PluginIncompatible
from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from tests.speculative.block_oracle import Kind, build_shape, draft_header, target_geometry, trained

# A published DFlash2 of the 27B model (docs/speculation.md, "Configs").
PUBLISHED: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "attention_bias": False,
    "dflash_config": {
        "block_size": 8,
        "target_layer_ids": [5, 19, 33, 47, 61],
        "mask_token_id": 248070,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 256,
        "selector_top_k": 16,
    },
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "is_causal": False,
    "layer_types": ["sliding_attention"] * 5,
    "max_position_embeddings": 262144,
    "max_window_layers": 5,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "num_target_layers": 64,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10_000_000, "rope_type": "default"},
    "sliding_window": 2048,
    "tie_word_embeddings": False,
    "use_sliding_window": True,
    "vocab_size": 248320,
}


def changed(**fields: Any) -> dict[str, Any]:
    """The published config with other fields; None takes one away."""
    merged = PUBLISHED | fields
    return {key: value for key, value in merged.items() if value is not None}


def inner(**fields: Any) -> dict[str, Any]:
    return changed(dflash_config=PUBLISHED["dflash_config"] | fields)


def with_config(config: object) -> ArtifactHeader:
    """The dummy of the published target, with another drafter's config."""
    header = dummy_headers({})["qwen3.8-27b"]
    raw = config if isinstance(config, bytes) else json.dumps(config).encode()
    return msgspec.structs.replace(header, resources={"draft_config.json": raw})


def read(config: object, architecture: str = SECOND) -> Any:
    return parse_config(with_config(config), architecture)


def test_a_published_config_is_read() -> None:
    config = read(PUBLISHED)
    assert (config.hidden_size, config.query_width, config.kv_width, len(config.layers)) == (5120, 4096, 1024, 5)
    assert (config.taps, config.mask_token_id, config.block_size) == ((5, 19, 33, 47, 61), 248070, 8)
    assert {(layer.window, layer.causal) for layer in config.layers} == {(2048, False)}
    assert config.rope_theta == 1e7 and config.target_layers == 64
    assert (config.additions.taps, config.additions.group, config.additions.rank) == (2, 16, 256)
    assert (config.additions.multiplier, config.additions.softcap, config.embedding_scale) == (1.0, None, 1.0)


def test_keys_that_moved_are_found_at_either_place() -> None:
    flat = {key: value for key, value in PUBLISHED.items() if key != "dflash_config"} | PUBLISHED["dflash_config"]
    older = {key: value for key, value in flat.items() if key != "rope_parameters"} | {"rope_theta": 1e7}
    assert read(flat) == read(older) == read(PUBLISHED)
    assert read(PUBLISHED | {"block_size": 16}).block_size == 8


@pytest.mark.parametrize(
    ("told", "kinds", "expected"),
    [
        ({"is_causal": False}, ["sliding_attention", "full_attention"], [False, False]),
        ({"is_causal": True}, ["sliding_attention", "full_attention"], [True, True]),
        ({"dflash_config": {"causal": True}}, ["sliding_attention", "full_attention"], [True, True]),
        ({"is_causal": False, "dflash_config": {"causal": True}}, ["full_attention"] * 2, [False, False]),
        ({}, ["sliding_attention", "full_attention"], [True, False]),
    ],
)
def test_who_is_causal(told: dict[str, Any], kinds: list[str], expected: list[bool]) -> None:
    block = PUBLISHED["dflash_config"] | told.get("dflash_config", {})
    config = changed(is_causal=told.get("is_causal"), layer_types=kinds, num_hidden_layers=2, dflash_config=block)
    assert [layer.causal for layer in read(config).layers] == expected


WRONG = {
    "hidden_act": (changed(hidden_act="gelu"), ["hidden_act is 'gelu'; it must be 'silu'"]),
    "two at once": (
        changed(attention_bias=True, head_dim=80),
        ["attention_bias is True; it must be False", "head_dim is 80; it must be one of 32, 64, 128, 256"],
    ),
    "unknown keys": (
        {**PUBLISHED, "markov_rank": 4, "dflash_config": {**PUBLISHED["dflash_config"], "tree": True}},
        ["markov_rank, dflash_config.tree: not known to this reader"],
    ),
    "missing": (changed(hidden_size=None), ["hidden_size is missing; it must be an integer of at least 1"]),
    "rope": (
        changed(rope_parameters={"rope_theta": 1e7, "rope_type": "yarn", "partial_rotary_factor": 0.25}),
        ["rope_parameters: rope_type is 'yarn'", "rope_parameters: partial_rotary_factor is 0.25; it must be 1.0"],
    ),
    "no rope": (changed(rope_parameters=None), ["rope_theta is missing"]),
    "rope scaling": (changed(rope_parameters=None, rope_theta=1e7, rope_scaling={"factor": 2}), ["rope_scaling is"]),
    "block": (inner(block_size=17), ["block_size is 17; it must be an integer of at least 2 and at most 16"]),
    "taps": (inner(target_layer_ids=[5, 5]), ["target_layer_ids is [5, 5]; it must be a list of different layers"]),
    "no taps": (inner(target_layer_ids=[]), ["target_layer_ids is []"]),
    "negative taps": (inner(target_layer_ids=[-1, 2]), ["target_layer_ids is [-1, 2]"]),
    "mask": (inner(mask_token_id=-1), ["mask_token_id is -1"]),
    "selector": (inner(selector_top_k=8), ["selector_top_k is 8; it must be an integer of at least 16"]),
    "rank": (inner(selector_rank=100), ["selector_rank is 100; it must be a power of two"]),
    "group": (inner(conv_group_size=48), ["conv_group_size is 48; it must be a divisor of hidden_size, 5120"]),
    "heads": (changed(num_attention_heads=30), ["num_attention_heads is 30; it must be a multiple of"]),
    "layer types": (changed(layer_types=["sliding_attention"] * 4), ["it must be 5 times sliding_attention or full"]),
    "unknown layer type": (changed(layer_types=["linear_attention"] * 5), ["it must be 5 times"]),
    "layer type is a list": (changed(layer_types=[["full_attention"]] * 5), ["it must be 5 times"]),
    "window": (changed(sliding_window=None), ["sliding_window is missing"]),
    "narrow window": (changed(sliding_window=16), ["sliding_window is 16; it must be an integer of at least 17"]),
    "no windows": (changed(use_sliding_window=False), ["use_sliding_window is False; it must be true"]),
    "softcap": (changed(final_logit_softcapping=-1), ["final_logit_softcapping is -1; it must be a number above 0"]),
    "no float": (changed(rms_norm_eps=10**400), ["rms_norm_eps is 1000", "a number above 0 and at most 1e+18"]),
    "truth as a number": (changed(num_hidden_layers=True), ["num_hidden_layers is True"]),
    "hostile sizes": (changed(num_hidden_layers=10**9), ["num_hidden_layers is 1000000000"]),
    "inner is no table": (changed(dflash_config=3), ["dflash_config is 3; it must be an object"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_everything_that_is_wrong_is_said_at_once(name: str) -> None:
    config, lines = WRONG[name]
    with pytest.raises(PluginIncompatible) as caught:
        read(config)
    for line in lines:
        assert line in caught.value.message
    assert "use a draft checkpoint that is published for this model" in caught.value.message


@pytest.mark.parametrize("raw", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_config_that_is_no_object(raw: bytes) -> None:
    with pytest.raises(PluginIncompatible, match="no JSON object; convert the artifact again"):
        read(raw)


@pytest.mark.parametrize(
    ("plugin", "named", "way_out"),
    [
        (dflash, ["DFlash2DraftModel"], "--spec dflash2"),
        (dflash2, ["DFlashDraftModel"], "--spec dflash;?"),
        (dflash, ["DSparkDraftModel"], "a checkpoint of DFlash or DFlash2"),
        (dflash2, None, "a checkpoint of DFlash or DFlash2"),
        (dflash2, ["DFlash2DraftModel", "DFlashDraftModel"], "--spec dflash2|a checkpoint"),
    ],
)
def test_the_architecture_names_the_plugin(plugin: Any, named: object, way_out: str) -> None:
    """The layers of one are not those of the other, whatever the tensors look like."""
    with pytest.raises(PluginIncompatible, match=way_out):
        plugin.ninfer_spec_draft_tokens(with_config(changed(architectures=named)))


@pytest.mark.parametrize("plugin", [dflash, dflash2])
def test_an_artifact_without_a_drafter_is_told_how_to_get_one(plugin: Any) -> None:
    with pytest.raises(PluginIncompatible, match="ninfer convert HF_DIR --draft DRAFT_DIR"):
        plugin.ninfer_spec_draft_tokens(msgspec.structs.replace(with_config(PUBLISHED), resources={}))


def test_the_inventory_is_that_of_the_published_checkpoint() -> None:
    geometry = build_geometry(with_config(PUBLISHED), "bfloat16")
    found = dflash2.ninfer_spec_inventory(with_config(PUBLISHED), geometry)
    assert found is not None
    assert (len(found), sum(spec.elements for spec in found)) == (81, 1_924_404_480)
    assert {(spec.name[:6], spec.group, spec.dtype) for spec in found} == {("draft.", "draft", "bfloat16")}
    plain = changed(architectures=[FIRST], dflash_config=PUBLISHED["dflash_config"])
    first = dflash.ninfer_spec_inventory(with_config(plain), geometry)
    assert first is not None and len(first) == 5 * 11 + 3
    assert {spec.name for spec in first} < {spec.name for spec in found}


def test_tensors_are_read_in_the_dtype_that_they_are_stored_in() -> None:
    kind = Kind(second=True)
    header = draft_header(kind, trained(kind))
    halves = tuple(msgspec.structs.replace(spec, dtype="float16") for spec in header.tensors[:3])
    strange = msgspec.structs.replace(header.tensors[3], dtype="int8")
    header = msgspec.structs.replace(header, tensors=(*halves, strange, *header.tensors[4:]))
    found = {spec.name: spec for spec in dflash2.ninfer_spec_inventory(header, target_geometry()) or ()}
    assert found.keys() == {spec.name for spec in header.tensors}
    assert all(found[spec.name] == spec for spec in header.tensors if spec is not strange)
    assert found[strange.name].dtype == "bfloat16", "which is what the core then says is wrong"


@pytest.mark.parametrize("plugin", [dflash, dflash2])
@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"architectures": ["LlamaForCausalLM"]}', None])
def test_the_checkpoint_of_another_drafter_is_left_to_others(plugin: Any, raw: bytes | None) -> None:
    header = with_config(b"" if raw is None else raw)
    header = header if raw is not None else msgspec.structs.replace(header, resources={})
    assert plugin.ninfer_spec_inventory(header, target_geometry()) is None


def test_one_of_the_two_claims_a_checkpoint() -> None:
    geometry = build_geometry(with_config(PUBLISHED), "bfloat16")
    assert dflash.ninfer_spec_inventory(with_config(PUBLISHED), geometry) is None
    assert dflash2.ninfer_spec_inventory(with_config(changed(architectures=[FIRST])), geometry) is None


def test_draft_counts() -> None:
    kind = Kind(second=True)
    tokens = dflash2.ninfer_spec_draft_tokens(draft_header(kind, trained(kind)))
    assert (tokens.most, tokens.default) == (15, 7)


def test_the_embedded_model_carries_a_dflash2() -> None:
    header = open_artifact(None, PluginRegistry.discover()).header
    assert dflash2.ninfer_spec_draft_tokens(header).default == 7
    with pytest.raises(PluginIncompatible, match="start with --spec dflash2"):
        dflash.ninfer_spec_draft_tokens(header)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"hidden_size": 128}, "hidden_size is 64, and the model has 128"),
        ({"layers": 7}, "num_target_layers is 6, and the model has 7"),
        ({"layers": 4}, "target_layer_ids go to 4, and the model has layers 0 to 3"),
        ({"vocabulary_rows": 80}, "mask_token_id is 90, and the embedding has rows 0 to 79"),
    ],
)
def test_a_drafter_of_another_model_is_refused(fields: dict[str, int], line: str) -> None:
    kind = Kind(second=True)
    geometry: Geometry = msgspec.structs.replace(target_geometry(), **fields)
    header = draft_header(kind, trained(kind))
    with pytest.raises(PluginIncompatible, match=line):
        dflash2.ninfer_spec_needs(header, geometry, build_shape(8))
    with pytest.raises(PluginIncompatible, match=line):
        dflash2.ninfer_spec_inventory(header, geometry)


def test_a_published_drafter_is_planned_to_the_byte() -> None:
    """40 MiB of context a sequence (docs/speculation.md, "What is kept of a sequence"), and 1.92 billion numbers."""
    from ninfer_speculative.block.needs import drafter_needs

    header = with_config(PUBLISHED)
    shape = BuildShape(
        prefill_tokens=1024, decode_rows=8, decode_columns=8, max_context=131072, activation_dtype="bfloat16"
    )
    needs = drafter_needs(header, read(PUBLISHED), build_geometry(header, "bfloat16"), shape)
    assert sum(array.bytes for array in needs.state) == 40 * 2**20
    assert sum(spec.elements for spec in needs.resident) == 1_924_404_480
    small = msgspec.structs.replace(shape, max_context=512)
    needs = drafter_needs(header, read(PUBLISHED), build_geometry(header, "bfloat16"), small)
    assert sum(array.bytes for array in needs.state) == 10 * 2**20


def test_reading_plans_without_torch() -> None:
    import subprocess
    import sys

    script = (
        "import sys\nfrom ninfer_speculative import dflash, dflash2\nimport ninfer_speculative.block.needs\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_first_and_second_are_told_apart() -> None:
    assert read(changed(architectures=[FIRST]), FIRST).additions is None
