from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest
import torch

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import conversion, open_artifact
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package
from ninfer_core.testing.toy_artifacts import FAMILY_MODULE, RESOURCES, toy_specs, write_toy_directory, write_toy_family


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    write_toy_family(folder, package="conversion-toy")
    return folder


@pytest.fixture
def registry(plugins: Path) -> PluginRegistry:
    return PluginRegistry.discover(entry_points_in(plugins), {})


def problems_of(directory: Path, registry: PluginRegistry) -> list[str]:
    output = directory.parent / "out.ninfer"
    with pytest.raises(ArtifactInvalid) as caught:
        convert_directory(str(directory), output, registry)
    assert not output.exists()
    return list(caught.value.problems)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_container_holds_the_directory_byte_for_byte(tmp_path: Path, registry: PluginRegistry, shards: int) -> None:
    directory = write_toy_directory(tmp_path / "toy-model", layers=11, shards=shards)
    told: list[tuple[int, int]] = []
    done = convert_directory(
        str(directory), tmp_path / "m.ninfer", registry, progress=lambda *piece: told.append(piece)
    )
    before, after = open_artifact(str(directory), registry), open_artifact(str(done.path), registry)
    assert after.header.resources == before.header.resources and after.header.config == before.header.config
    assert (done.tensors, done.bytes) == (len(toy_specs(11)), done.path.stat().st_size)
    assert after.header.identity == done.identity
    assert (done.identity.model_id, done.identity.weights_id, done.identity.family) == ("toy-model", "bf16", "toy")
    with before.open_weights() as old, after.open_weights() as new:
        for spec in before.header.tensors:
            read = (weights.read(spec.name, torch.device("cpu")).view(torch.uint8) for weights in (old, new))
            assert torch.equal(*read)
    assert told[-1][0] == told[-1][1] and [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.contract("GEN-20")
def test_the_public_name_can_be_given(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_toy_directory(tmp_path / "toy")
    done = convert_directory(str(directory), tmp_path / "m.ninfer", registry, model_id="other/name")
    assert open_artifact(str(done.path), registry).header.identity.model_id == "other/name"


def test_an_output_that_exists_is_replaced_only_when_told(tmp_path: Path, registry: PluginRegistry) -> None:
    directory, output = write_toy_directory(tmp_path / "toy"), tmp_path / "m.ninfer"
    output.write_bytes(b"old")
    with pytest.raises(ArtifactInvalid, match="--force replaces it"):
        convert_directory(str(directory), output, registry)
    assert output.read_bytes() == b"old"
    convert_directory(str(directory), output, registry, overwrite=True)
    assert open_artifact(str(output), registry).header.identity.model_id == "toy"


def test_an_incomplete_model_is_refused_with_the_whole_list(tmp_path: Path, registry: PluginRegistry) -> None:
    specs = [spec for spec in toy_specs() if spec.name != "layers.1.proj.weight"]
    specs[0] = TensorSpec(name="embed.weight", shape=(3, 8), dtype="bfloat16")
    specs.append(TensorSpec(name="rotary.inv_freq", shape=(4,), dtype="float32"))
    directory = write_toy_directory(tmp_path / "toy", specs, resources={"tokenizer.json": b"{}"})
    assert problems_of(directory, registry) == [
        "chat_template.jinja is missing",
        "wrong shape: embed.weight, [3, 8] instead of [16, 8]",
        "missing: layers.1.proj.weight, bfloat16 [8, 8]",
        "unknown: rotary.inv_freq, float32 [4]",
    ]


def test_a_group_that_is_wholly_absent_is_no_problem(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_toy_directory(tmp_path / "toy", toy_specs(mtp=False))
    assert convert_directory(str(directory), tmp_path / "m.ninfer", registry).tensors == len(toy_specs(mtp=False))


def test_what_the_family_says_of_config_and_frontend(tmp_path: Path, registry: PluginRegistry) -> None:
    bad_config = write_toy_directory(tmp_path / "a", config={"model_type": "toy"}, resources={})
    assert problems_of(bad_config, registry) == [
        "tokenizer.json is missing",
        "chat_template.jinja is missing",
        "num_hidden_layers must be an integer",
    ]
    bad_tokenizer = write_toy_directory(tmp_path / "b", resources={**RESOURCES, "tokenizer.json": b"broken"})
    assert problems_of(bad_tokenizer, registry) == ["tokenizer.json is broken"]


def test_a_model_of_no_family_or_of_two(tmp_path: Path, plugins: Path, registry: PluginRegistry) -> None:
    stranger = write_toy_directory(tmp_path / "stranger", config={"model_type": "llama"})
    (problem,) = problems_of(stranger, registry)
    assert problem == "no family knows it (model_type in config.json: 'llama'; families: toy@conversion-toy)"
    write_plugin_package(plugins, "conversion-other", {"family:other": FAMILY_MODULE})
    both = PluginRegistry.discover(entry_points_in(plugins), {})
    (problem,) = problems_of(write_toy_directory(tmp_path / "toy"), both)
    assert problem.startswith("several families claim it: other@conversion-other, toy@conversion-toy; NINFER_PLUGINS=")


def test_sources_and_outputs_of_the_wrong_kind(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_toy_directory(tmp_path / "toy")
    with pytest.raises(ArtifactInvalid, match=r"the name of a container ends in \.ninfer"):
        convert_directory(str(directory), tmp_path / "m.safetensors", registry)
    with pytest.raises(ArtifactInvalid, match="only a Hugging Face directory"):
        convert_directory("dummy:toy-small", tmp_path / "m.ninfer", registry)
    with pytest.raises(ArtifactInvalid, match="there is no directory"):
        convert_directory(str(directory), tmp_path / "absent" / "m.ninfer", registry)


def test_a_full_disk_is_noticed_before_writing(
    tmp_path: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(conversion.shutil, "disk_usage", lambda path: usage(100, 90, 10))
    (problem,) = problems_of(write_toy_directory(tmp_path / "toy"), registry)
    assert problem.endswith("bytes and 10 are free on its file system")
