"""Geometry, inventory, resident tensors and workspace: numbers that the plan is made of."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ninfer_models.qwen_hybrid.config import parse_config
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.inventory import Naming, build_inventory
from ninfer_models.qwen_hybrid.resident import ResidentRows, build_resident, list_residents
from ninfer_models.qwen_hybrid.workspace import workspace_bytes

from ninfer_core.api import ArtifactHeader, BuildShape
from ninfer_core.artifact import inventory_problems, open_artifact
from ninfer_core.plugins import PluginRegistry

MIB = 1 << 20
DENSE, MOE = "qwen3.8-27b", "qwen3.6-35b-a3b"


@pytest.fixture(scope="module")
def headers() -> dict[str, ArtifactHeader]:
    return dummy_headers({})


@pytest.mark.parametrize(("name", "recurrent", "conv"), [(DENSE, 144.0, 2.8125), (MOE, 60.0, 1.40625)])
def test_state_of_a_sequence(headers: dict[str, ArtifactHeader], name: str, recurrent: float, conv: float) -> None:
    geometry = build_geometry(headers[name], "bfloat16")
    mebibytes = {array.name: array.bytes / MIB for array in geometry.state}
    assert mebibytes == {"recurrent": recurrent}
    assert {array.dtype for array in geometry.state} == {"float32"}
    assert geometry.state_bytes + geometry.kept_bytes == (recurrent + conv) * MIB
    wide = build_geometry(headers[name], "float32")
    assert wide.state_bytes + wide.kept_bytes == (recurrent + 2 * conv) * MIB


def test_records_of_a_column(headers: dict[str, ArtifactHeader]) -> None:
    geometry = build_geometry(headers[DENSE], "bfloat16")
    # per layer: 10,240 columns of bf16, 16 keys and 48 updates of 128 float32, 48 decays
    assert geometry.record_bytes == 48 * (10240 * 2 + (16 * 128 + 48 * 128 + 48) * 4)
    assert (
        geometry.ring_bytes(4)
        == 8 * geometry.record_bytes + 48 * 3 * 10240 * 2
        == (8 * geometry.record_bytes + geometry.kept_bytes)
    )


def test_attention_and_vocabulary(headers: dict[str, ArtifactHeader]) -> None:
    geometry = build_geometry(headers[MOE], "bfloat16")
    attention = geometry.attention
    assert (attention.layers, attention.query_heads, attention.kv_heads, attention.head_dim) == (10, 16, 2, 256)
    assert (geometry.vocabulary_rows, geometry.max_positions) == (248320, 262144)


def test_the_inventory_of_published_checkpoints(headers: dict[str, ArtifactHeader]) -> None:
    """Counts of BF16 checkpoints: 1199 and 1045 tensors with 15 or 19 of MTP and 333 of the vision tower."""
    vision = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
    for name, hidden, counts in (
        (DENSE, 5120, {"text": 851, "mtp": 15, "vision": 333}),
        (MOE, 2048, {"text": 693, "mtp": 19, "vision": 333}),
    ):
        wrapped = {"text_config": headers[name].config, "vision_config": {**vision, "out_hidden_size": hidden}}
        inventory = build_inventory(msgspec.structs.replace(headers[name], config=wrapped, tensors=()))
        assert Counter(spec.group for spec in inventory) == counts
        assert len({spec.name for spec in inventory}) == len(inventory)
        assert "model.language_model.embed_tokens.weight" in {spec.name for spec in inventory}


VARIANTS: dict[str, dict[str, Any]] = {
    "dense": {},
    "experts": {"moe": True},
    "vision-language": {"wrapped": True},
    "vision-language with experts": {"wrapped": True, "moe": True},
    "tied": {"tie_word_embeddings": True},
}
EVERYTHING = frozenset({"text", "mtp", "vision"})


@pytest.mark.parametrize("name", VARIANTS)
def test_the_inventory_is_what_transformers_saves(name: str, make_checkpoint: Callable[..., Any]) -> None:
    header = open_artifact(str(make_checkpoint(**VARIANTS[name]).path), PluginRegistry.discover()).header
    assert inventory_problems(header, build_inventory(header), EVERYTHING) == []


def _renamed(header: ArtifactHeader, rename: Callable[[str], str]) -> ArtifactHeader:
    tensors = tuple(msgspec.structs.replace(tensor, name=rename(tensor.name)) for tensor in header.tensors)
    return msgspec.structs.replace(header, tensors=tensors)


@pytest.mark.parametrize("prefix", ["model.", "model.language_model.", "language_model.model."])
def test_prefixes_in_use(headers: dict[str, ArtifactHeader], prefix: str) -> None:
    def rename(name: str) -> str:
        return prefix + name.removeprefix("model.") if name.startswith("model.") else name

    header = _renamed(headers[MOE], rename)
    assert inventory_problems(header, build_inventory(header), EVERYTHING) == []


def test_a_missing_tensor_is_missed_under_the_names_of_the_artifact(headers: dict[str, ArtifactHeader]) -> None:
    kept = tuple(tensor for tensor in headers[DENSE].tensors if tensor.name != "model.layers.7.self_attn.q_norm.weight")
    header = msgspec.structs.replace(headers[DENSE], tensors=kept)
    (problem,) = inventory_problems(header, build_inventory(header), EVERYTHING)
    assert "self_attn.q_norm.weight" in problem


@pytest.mark.parametrize("name", [DENSE, MOE])
@pytest.mark.parametrize("groups", [("text",), ("text", "mtp"), ("text", "draft", "draft_head", "mtp")])
def test_every_tensor_of_a_group_goes_somewhere_once(
    headers: dict[str, ArtifactHeader], name: str, groups: tuple[str, ...]
) -> None:
    header = headers[name]
    config = parse_config(header)
    residents = list_residents(config, Naming(header, config), "bfloat16", groups)
    parts = [part for resident in residents for part in resident.sources]
    ours = [tensor.name for tensor in header.tensors if tensor.group in groups and tensor.group != "draft"]
    assert sorted(parts) == sorted(ours)
    sizes = {tensor.name: tensor.elements for tensor in header.tensors}
    by_name = {spec.name: spec for spec in build_resident(header, "bfloat16", groups)}
    for resident in residents:
        if resident.sources and not isinstance(resident, ResidentRows):
            assert by_name[resident.name].elements == sum(sizes[part] for part in resident.sources)


def test_weights_cost_what_the_checkpoint_has(headers: dict[str, ArtifactHeader]) -> None:
    """Matrices stay as they are; vectors and taps are float32, which is a few MiB more."""
    for header in headers.values():
        stored = sum(tensor.bytes for tensor in header.tensors if tensor.group == "text")
        held = sum(spec.bytes for spec in build_resident(header, "bfloat16"))
        assert 0 <= held - stored < 16 * MIB


@pytest.mark.parametrize(("name", "mebibytes"), [(DENSE, 810.2), (MOE, 1611.2)])
def test_what_drafting_adds(headers: dict[str, ArtifactHeader], name: str, mebibytes: float) -> None:
    """The head by the shapes of docs/model.md, "Next-token head"; a reduced head costs its rows and their ids."""
    header = headers[name]
    text, mtp, reduced = (
        sum(spec.bytes for spec in build_resident(header, "bfloat16", groups))
        for groups in (("text",), ("text", "mtp"), ("text", "draft_head"))
    )
    assert abs((mtp - text) / MIB - mebibytes) < 1
    assert reduced - text == 131072 * (header.config["hidden_size"] * 2 + 8)


def _shape(**fields: int) -> BuildShape:
    defaults = {"prefill_tokens": 1024, "decode_rows": 8, "decode_columns": 1, "max_context": 8192}
    return BuildShape(**{**defaults, **fields}, activation_dtype="bfloat16")


def test_workspace_is_a_few_hundred_mebibytes(headers: dict[str, ArtifactHeader]) -> None:
    for header in headers.values():
        assert 150 * MIB < workspace_bytes(header, _shape()) < 300 * MIB


def test_workspace_grows_with_the_work_and_not_with_the_context(headers: dict[str, ArtifactHeader]) -> None:
    header = headers[DENSE]
    base = workspace_bytes(header, _shape())
    assert workspace_bytes(header, _shape(prefill_tokens=2048)) > 1.6 * base
    assert workspace_bytes(header, _shape(max_context=262144)) == base
    small = _shape(prefill_tokens=64)
    more = workspace_bytes(header, _shape(prefill_tokens=64, decode_columns=16))
    assert more > workspace_bytes(header, small)


def test_planning_imports_no_torch() -> None:
    script = (
        "import sys, ninfer_models.qwen_hybrid as family\n"
        "from ninfer_core.api import BuildShape\n"
        "shape = BuildShape(prefill_tokens=1024, decode_rows=8, decode_columns=1, max_context=8192,"
        " activation_dtype='bfloat16')\n"
        "for header in family.ninfer_family_dummies().values():\n"
        "    assert family.ninfer_family_match(header)\n"
        "    family.ninfer_family_geometry(header, 'bfloat16')\n"
        "    assert len(family.ninfer_family_inventory(header)) == len(header.tensors)\n"
        "    family.ninfer_family_resident(header, 'bfloat16', ('text',))\n"
        "    family.ninfer_family_workspace(header, shape)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=Path(sys.prefix))
