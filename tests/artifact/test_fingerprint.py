"""An artifact is known by its content, and cheaply."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ninfer_core.api import ArtifactHeader, TensorSpec
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.fingerprint import artifact_fingerprint
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tiny import write_tiny_artifact
from ninfer_core.testing.toy_artifacts import write_toy_directory


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> ArtifactHeader:
    path = write_tiny_artifact(tmp_path_factory.mktemp("artifact") / "tiny.ninfer")
    return open_artifact(str(path), PluginRegistry.discover()).header


def test_a_copy_under_another_name_is_the_same_artifact(header: ArtifactHeader, tmp_path: Path) -> None:
    copy = shutil.copy(header.source, tmp_path / "copied-as.ninfer")
    again = open_artifact(str(copy), PluginRegistry.discover()).header
    assert again.source != header.source
    assert artifact_fingerprint(again) == artifact_fingerprint(header)
    assert header.file_bytes == (Path(header.source).stat().st_size,)


CHANGES: dict[str, Any] = {
    "a number of the config": lambda header: {"config": {**header.config, "rms_norm_eps": 1e-5}},
    "a byte of the template": lambda header: {
        "resources": {**header.resources, "chat_template.jinja": header.resources["chat_template.jinja"] + b" "}
    },
    "a resource more": lambda header: {"resources": {**header.resources, "x.json": b""}},
    "a tensor's dtype": lambda header: {
        "tensors": (msgspec.structs.replace(header.tensors[0], dtype="float16"), *header.tensors[1:])
    },
    "a tensor more": lambda header: {"tensors": (*header.tensors, TensorSpec(name="x", shape=(1,), dtype="int8"))},
    "a tensor's shape": lambda header: {
        "tensors": (msgspec.structs.replace(header.tensors[0], shape=(1,)), *header.tensors[1:])
    },
    "the size of a file": lambda header: {"file_bytes": (header.file_bytes[0] + 1,)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_shows(change: str, header: ArtifactHeader) -> None:
    changed = msgspec.structs.replace(header, **CHANGES[change](header))
    assert artifact_fingerprint(changed) != artifact_fingerprint(header)


def test_a_directory_counts_every_file_with_weights(tmp_path: Path) -> None:
    directory = write_toy_directory(tmp_path, shards=2)
    header = open_artifact(str(directory), PluginRegistry.discover()).header
    sizes = [path.stat().st_size for path in sorted(directory.glob("*.safetensors"))]
    assert list(header.file_bytes) == sizes and len(sizes) == 2
