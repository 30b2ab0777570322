from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import EMBEDDED_SOURCE, embedded_artifact, open_artifact, source
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.plugins import entry_points_in
from ninfer_core.testing.toy_artifacts import write_toy_directory, write_toy_family


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    monkeypatch.syspath_prepend(str(plugins))
    write_toy_family(plugins, package="source-toy")
    return PluginRegistry.discover(entry_points_in(plugins), {})


def problem_of(argument: str, registry: PluginRegistry) -> str:
    with pytest.raises(ArtifactInvalid) as caught:
        open_artifact(argument, registry)
    (problem,) = caught.value.problems
    return problem


def test_every_kind_of_source_can_be_opened_again_by_its_header(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_toy_directory(tmp_path / "toy")
    convert_directory(str(directory), tmp_path / "toy.ninfer", registry)
    for argument in (str(directory), str(tmp_path / "toy.ninfer"), "dummy:toy-small"):
        header = open_artifact(argument, registry).header
        assert open_artifact(header.source, registry).header == header


def test_names_that_are_not_there_come_with_what_was_meant(tmp_path: Path, registry: PluginRegistry) -> None:
    write_toy_directory(tmp_path / "toy-model")
    (tmp_path / "tiny.ninfer").touch()
    assert f"did you mean '{tmp_path / 'toy-model'}'?" in problem_of(str(tmp_path / "toy-modle"), registry)
    assert f"did you mean '{tmp_path / 'tiny.ninfer'}'?" in problem_of(str(tmp_path / "tiny.ninfr"), registry)
    assert "did you mean 'dummy:toy-small'?" in problem_of("toy-small", registry)
    assert "did you mean 'dummy:toy-small'?" in problem_of("dumy:toy-small", registry)
    nothing_near = problem_of("zzz", registry)
    assert "did you mean" not in nothing_near and "dummy:NAME" in nothing_near


def test_files_that_are_no_containers(tmp_path: Path, registry: PluginRegistry) -> None:
    for name, said in {
        "model.safetensors": f"name the directory, {str(tmp_path)!r}",
        "config.json": "name the directory",
        "model.gguf": "does not end in .ninfer; `ninfer convert`",
    }.items():
        (tmp_path / name).touch()
        assert said in problem_of(str(tmp_path / name), registry)
    os.mkfifo(tmp_path / "pipe.ninfer")
    assert problem_of(str(tmp_path / "pipe.ninfer"), registry) == "it is no regular file"


@pytest.mark.parametrize("argument", ["x" * 5000, "~nobody-of-that-name/m", "\0", "\udcff.ninfer"])
def test_arguments_no_file_system_takes(argument: str, registry: PluginRegistry) -> None:
    with pytest.raises(ArtifactInvalid):
        open_artifact(argument, registry)


def test_the_embedded_model_is_found_in_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: PluginRegistry
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "toy_models"
    package.mkdir()
    with pytest.raises(ArtifactInvalid, match="with ninfer-models, not installed here"):
        embedded_artifact(package="toy_models_absent")
    with pytest.raises(
        ArtifactInvalid, match=r"has no assets/ninfer-tiny\.ninfer; reinstall ninfer-models, or in a clone"
    ):
        embedded_artifact(package="toy_models")
    (package / "assets").mkdir()
    path = package / "assets" / "ninfer-tiny.ninfer"
    convert_directory(str(write_toy_directory(tmp_path / "toy")), path, registry)
    assert embedded_artifact(package="toy_models") == path
    monkeypatch.setattr(source, "embedded_artifact", lambda name: path.with_name(f"{name}.ninfer"))
    for argument in (None, EMBEDDED_SOURCE):
        assert open_artifact(argument, registry).header.source == EMBEDDED_SOURCE


def test_another_embedded_model_has_a_name_of_its_own(registry: PluginRegistry) -> None:
    assert "did you mean 'ninfer-tiny-moe'?" in problem_of("embedded:ninfer-tiny-mo", registry)
    assert "there are ninfer-tiny, ninfer-tiny-moe" in problem_of("embedded:other", registry)


def test_opening_imports_no_torch(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_toy_directory(tmp_path / "toy")
    convert_directory(str(directory), tmp_path / "toy.ninfer", registry)
    script = f"""
import sys
from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
registry = PluginRegistry.discover()
for source in ({str(directory)!r}, {str(tmp_path / "toy.ninfer")!r}, "dummy:toy-small"):
    open_artifact(source, registry)
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""
    paths = os.pathsep.join([str(tmp_path / "plugins"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths, "NINFER_PLUGINS": "source-toy"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
