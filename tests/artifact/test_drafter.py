"""A target and a drafter published apart become one artifact that backends draft with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import save_file

from ninfer_core.api import ArtifactInvalid, PlanRejected, TensorSpec
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.artifact.drafter import with_drafter
from ninfer_core.artifact.report import report_artifact
from ninfer_core.artifact.writer import write_container
from ninfer_core.cli.main import main
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan
from tests.speculative.block_oracle import SIZES, Kind, draft_config
from tools.tiny_model.drafters import BlockDrafter

CPU = torch.device("cpu")
FITTING = dataclasses.replace(SIZES, vocab_size=320, target_layer_ids=(0, 2), mask_token_id=300)
"""To the tiny model."""


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    handle, folder = tiny_artifact(), tmp_path / "target"
    folder.mkdir()
    for name, data in handle.header.resources.items():
        (folder / name).write_bytes(data)
    with handle.open_weights() as weights:
        tensors = {spec.name: weights.read(spec.name, CPU) for spec in handle.header.tensors}
    save_file(tensors, folder / "model.safetensors")
    return folder


def drafter(folder: Path, *, second: bool = True, without: str = "", **config: object) -> Path:
    """A draft checkpoint as they are published: names without a prefix, no tokenizer."""
    folder.mkdir()
    kind = Kind(second=second)
    described = draft_config(kind, FITTING) | {"num_target_layers": 4} | config
    (folder / "config.json").write_text(json.dumps(described))
    tensors = BlockDrafter(FITTING, second=second).state_dict()
    save_file({name: value for name, value in tensors.items() if name != without}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("second", [True, False], ids=["dflash2", "dflash"])
@pytest.mark.parametrize("weights", [None, "fp8"])
def test_one_file_has_both(
    target: Path, tmp_path: Path, registry: PluginRegistry, second: bool, weights: str | None
) -> None:
    beside, output = drafter(tmp_path / "drafter", second=second), tmp_path / "m.ninfer"
    form = ["--weights", weights] if weights else []
    assert main(["convert", str(target), "-o", str(output), "--draft", str(beside), *form]) == 0
    made, apart = open_artifact(str(output), registry), open_artifact(str(beside), registry)
    assert made.header.identity.model_id == "target"
    assert made.header.resources["draft_config.json"] == (beside / "config.json").read_bytes()
    assert made.header.resources["config.json"] == (target / "config.json").read_bytes()
    with made.open_weights() as ours, apart.open_weights() as theirs:
        for spec in apart.header.tensors:
            assert torch.equal(ours.read(f"draft.{spec.name}", CPU), theirs.read(spec.name, CPU))
    plan = tiny_plan(registry, made.header, spec="dflash2" if second else "dflash", draft_tokens=3)
    assert plan.drafter is not None and plan.drafter.needs.taps == (0, 2)


def problems(target: Path, draft: Path, output: Path, registry: PluginRegistry) -> list[str]:
    with pytest.raises(ArtifactInvalid) as caught:
        convert_directory(str(target), output, registry, draft=str(draft))
    assert not output.exists()
    return list(caught.value.problems)


def test_what_is_no_whole_checkpoint_is_refused(target: Path, tmp_path: Path, registry: PluginRegistry) -> None:
    output = tmp_path / "m.ninfer"
    part = drafter(tmp_path / "part", without="fc.weight")
    assert any("missing: draft.fc.weight" in line for line in problems(target, part, output, registry))
    empty = drafter(tmp_path / "empty")
    save_file({}, empty / "model.safetensors")
    assert any("no tensors" in line for line in problems(target, empty, output, registry))
    first = drafter(tmp_path / "mixed", architectures=["DFlashDraftModel"])
    assert any("unknown: draft.candidate_selector" in line for line in problems(target, first, output, registry))
    file = tmp_path / "drafter.safetensors"
    file.write_bytes(b"")
    assert problems(target, file, output, registry) == ["only a Hugging Face directory can be converted"]


@pytest.mark.parametrize(
    ("second", "config"),
    [
        (True, {"hidden_size": 96}),
        (True, {"num_target_layers": 5}),
        (True, {"vocab_size": 100}),
        (True, {"dflash_config": {"target_layer_ids": [0, 4]}}),
        (True, {"hidden_act": "gelu", "head_dim": 80}),
        (True, {"markov_rank": 4}),
        (False, {"rope_scaling": {"factor": 2}}),
        (False, {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 2}),
    ],
)
def test_what_a_plan_would_refuse_is_not_converted(
    target: Path, tmp_path: Path, registry: PluginRegistry, second: bool, config: dict[str, Any]
) -> None:
    """Word for word: both ask the backend."""
    inner = draft_config(Kind(second=second), FITTING)["dflash_config"] | config.get("dflash_config", {})
    beside = drafter(tmp_path / "drafter", second=second, **config | {"dflash_config": inner})
    lines = problems(target, beside, tmp_path / "m.ninfer", registry)
    name, stored = "dflash2" if second else "dflash", open_artifact(str(target), registry)
    joined = with_drafter(stored, open_artifact(str(beside), registry)).header
    with pytest.raises(PlanRejected) as caught:
        tiny_plan(registry, joined, spec=name)
    (refused,) = caught.value.problems
    said = refused.message.removeprefix(f"--spec {name}: ")
    assert said != refused.message
    assert lines == [f"its drafter cannot draft for it: {name}: {said}"]


def test_a_drafter_that_nobody_knows_is_not_converted(target: Path, tmp_path: Path, registry: PluginRegistry) -> None:
    unknown = drafter(tmp_path / "unknown", architectures=["DSparkDraftModel"])
    (line,) = problems(target, unknown, tmp_path / "m.ninfer", registry)
    assert line == (
        "no backend of speculation knows its drafter (architectures in draft_config.json: 'DSparkDraftModel'; asked: "
        "dflash@ninfer-speculative, dflash2@ninfer-speculative)"
    )


def test_a_name_that_is_none_is_a_usage_error(target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(target), "-o", str(tmp_path / "m.ninfer"), "--draft", ""]) == 2
    assert "--draft: it names no directory" in capsys.readouterr().err
    assert not (tmp_path / "m.ninfer").exists()


def test_a_drafter_that_cannot_be_used_keeps_nobody_from_serving_the_target(
    target: Path, tmp_path: Path, registry: PluginRegistry
) -> None:
    beside = drafter(tmp_path / "drafter", hidden_act="gelu")
    stored = open_artifact(str(target), registry)
    joined = with_drafter(stored, open_artifact(str(beside), registry))
    assert tiny_plan(registry, joined.header).drafter is None
    path, header = tmp_path / "m.ninfer", joined.header
    identity = msgspec.structs.replace(header.identity, family="qwen-hybrid", format_version=1)
    write_container(
        path, identity=identity, resources=header.resources, tensors=header.tensors, chunks=joined.store.chunks
    )
    (problem,) = report_artifact(str(path), registry).problems
    assert "hidden_act is 'gelu'" in problem


def test_tensors_behind_the_prefix_without_a_config_are_unknown(registry: PluginRegistry) -> None:
    header = tiny_artifact().header
    stray = TensorSpec(name="draft.fc.weight", shape=(2, 2), dtype="float32")
    with pytest.raises(ArtifactInvalid, match=r"unknown: draft\.fc\.weight"):
        tiny_plan(registry, msgspec.structs.replace(header, tensors=(*header.tensors, stray)))


def test_a_target_with_a_drafter_keeps_it(target: Path, tmp_path: Path, registry: PluginRegistry) -> None:
    (target / "draft_config.json").write_text("{}")
    (line,) = problems(target, drafter(tmp_path / "drafter"), tmp_path / "m.ninfer", registry)
    assert "leave --draft out" in line
