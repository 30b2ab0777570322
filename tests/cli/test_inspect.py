from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.artifact.writer import write_container
from ninfer_core.cli.main import main
from ninfer_core.testing.plugins import write_plugin_package
from ninfer_core.testing.tiny import tiny_header
from ninfer_core.testing.toy_artifacts import (
    FAMILY_MODULE,
    RESOURCES,
    toy_specs,
    write_safetensors,
    write_toy_directory,
    write_toy_family,
)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    write_toy_family(folder, package="cli-inspect-toy")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("NINFER_PLUGINS", "cli-inspect-toy")
    return folder


@pytest.fixture
def container(tmp_path: Path, plugins: Path) -> Path:
    path = tmp_path / "m.ninfer"
    assert main(["convert", str(write_toy_directory(tmp_path / "toy-model")), "-o", str(path)]) == 0
    return path


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert main(["inspect", *arguments, "--json"]) == code
    value = json.loads(capsys.readouterr().out)
    assert isinstance(value, dict)
    return value


def test_json_has_identity_groups_resources_and_geometry(container: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = as_json(capsys, str(container))
    assert value["valid"] is True and value["problems"] == [] and value["notes"] == []
    assert value["identity"] == {"model_id": "toy-model", "weights_id": "bf16", "family": "toy", "format_version": 1}
    assert value["families"] == ["toy@cli-inspect-toy"]
    assert value["geometry"]["layers"] == 2 and value["geometry"]["hidden_size"] == 8  # type: ignore[index]
    text = sum(spec.bytes for spec in toy_specs(mtp=False))
    assert value["groups"] == [
        {"group": "mtp", "tensors": 1, "bytes": 128, "bytes_by_dtype": {"bfloat16": 128}},
        {"group": "text", "tensors": 5, "bytes": text, "bytes_by_dtype": {"bfloat16": text}},
    ]
    forms = [{"form": "plain", "tensors": 6, "weights": (text + 128) // 2, "bytes": text + 128}]
    assert value["forms"] == forms
    sums = {part["name"]: (part["bytes"], part["sha256"]) for part in value["resources"]}  # type: ignore[attr-defined]
    for name, data in RESOURCES.items():
        assert sums[name] == (len(data), hashlib.sha256(data).hexdigest())
    assert "tensors" not in value
    listed = as_json(capsys, str(container), "--tensors")["tensors"]
    assert {"name": "mtp.proj.weight", "group": "mtp", "dtype": "bfloat16", "shape": [8, 8], "bytes": 128} in listed  # type: ignore[operator]


def test_the_text_form(container: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["inspect", str(container), "--tensors"]) == 0
    said = capsys.readouterr().out
    for part in (
        "toy-model",
        "toy@cli-inspect-toy",
        "2, 2 of them attention",
        "GROUP",
        "SHA256",
        "layers.1.proj.weight",
    ):
        assert part in said
    assert re.search(r"^state +valid$", said, re.MULTILINE)


def test_directories_and_dummies_too(plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_toy_directory(tmp_path / "toy-model", shards=2)
    assert as_json(capsys, str(directory))["identity"]["format_version"] == 0  # type: ignore[index]
    assert as_json(capsys, "dummy:toy-small")["identity"]["model_id"] == "toy-small"  # type: ignore[index]


def test_an_artifact_that_cannot_be_opened(plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.ninfer"
    write_safetensors(path, toy_specs())
    value = as_json(capsys, str(path), code=1)
    assert value["valid"] is False and value["identity"] is None and len(value["problems"]) == 7  # type: ignore[arg-type]
    assert main(["inspect", str(path)]) == 1
    said = capsys.readouterr().out
    assert "cannot be used: 7 problems" in said and "problem: '__metadata__' has no model_id" in said


def test_an_artifact_that_its_family_cannot_use(
    plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = [*toy_specs()[1:], TensorSpec(name="odd", shape=(1,), dtype="float32")]
    value = as_json(capsys, str(write_toy_directory(tmp_path / "toy", specs)), code=1)
    assert value["problems"] == ["missing: embed.weight, bfloat16 [16, 8]", "unknown: odd, float32 [1]"]
    assert [group["group"] for group in value["groups"]] == ["mtp", "text", "unknown"]  # type: ignore[index, attr-defined]


def test_without_exactly_one_claim_there_is_no_geometry(
    plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = write_toy_directory(tmp_path / "stranger", config={"model_type": "llama"})
    value = as_json(capsys, str(stranger), code=1)
    assert value["problems"] == ["no installed family claims it (model_type in config.json: 'llama')"]
    assert value["geometry"] is None
    write_plugin_package(
        plugins, "cli-inspect-other", {"family:other": FAMILY_MODULE, "family:bad": "raise ImportError('x')"}
    )
    monkeypatch.setenv("NINFER_PLUGINS", "cli-inspect-toy,cli-inspect-other")
    value = as_json(capsys, str(write_toy_directory(tmp_path / "toy")))
    failed, several = value["notes"]  # type: ignore[misc]
    assert "failed to import" in failed
    assert several == "several families claim it: other@cli-inspect-other, toy@cli-inspect-toy"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    """The tiny model with some resources replaced."""
    monkeypatch.delenv("NINFER_PLUGINS", raising=False)

    def write(changed: dict[str, bytes]) -> Path:
        header = tiny_header()
        write_container(
            tmp_path / "tiny.ninfer",
            identity=msgspec.structs.replace(header.identity, family="qwen-hybrid", format_version=1),
            resources={**header.resources, **changed},
            tensors=header.tensors,
            chunks=lambda name: (bytes(spec.bytes) for spec in header.tensors if spec.name == name),
        )
        return tmp_path / "tiny.ninfer"

    return write


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("chat_template.jinja", b"{% if %}", "chat_template.jinja: "),
        ("chat_template.jinja", b"\xff\xfe", "chat_template.jinja: "),
        ("tokenizer.json", b"garbage", "tokenizer.json"),
        ("generation_config.json", b'{"top_p": "x"}', "generation_config.json"),
        ("config.json", b"{}", "no installed family claims it (model_type in config.json: 'absent')"),
    ],
)
def test_resources_that_no_server_could_use(
    tiny: Callable[[dict[str, bytes]], Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    data: bytes,
    said: str,
) -> None:
    problems = as_json(capsys, str(tiny({name: data})), code=1)["problems"]
    assert isinstance(problems, list) and problems and all(said in problem for problem in problems)


def test_a_model_that_is_whole_is_inspected_without_torch(tiny: Callable[[dict[str, bytes]], Path]) -> None:
    script = f"""
import sys
from ninfer_core.cli.main import main
assert main(["inspect", {str(tiny({}))!r}]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_names_out_of_a_file_do_nothing_to_the_terminal(
    plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = [*toy_specs(), TensorSpec(name="\x1b[31mred\x07", shape=(1,), dtype="float32")]
    assert main(["inspect", str(write_toy_directory(tmp_path / "toy", specs)), "--tensors"]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said and "\\x1b[31mred" in said


def test_inspecting_imports_no_torch(container: Path, plugins: Path) -> None:
    script = f"""
import sys
from ninfer_core.cli.main import main
assert main(["inspect", {str(container)!r}, "--tensors"]) == 0
assert main(["inspect", "dummy:toy-small", "--json"]) == 0
assert "torch" not in sys.modules
"""
    paths = os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
