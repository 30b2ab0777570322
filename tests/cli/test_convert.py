from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ninfer_core.cli.main import main
from ninfer_core.testing.tiny import tiny_artifact
from ninfer_core.testing.toy_artifacts import write_toy_directory, write_toy_family


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    write_toy_family(plugins, package="cli-convert-toy")
    monkeypatch.syspath_prepend(str(plugins))
    monkeypatch.setenv("NINFER_PLUGINS", "cli-convert-toy")
    return write_toy_directory(tmp_path / "toy-model", shards=2)


def test_what_was_written_is_printed(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "m.ninfer"
    assert main(["convert", str(directory), "-o", str(output), "--model-id", "mine"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{output}: mine (toy, bf16)"
    assert second.startswith(f"6 tensors, {output.stat().st_size:,} bytes, ")
    assert main(["convert", str(directory), "-o", str(output)]) == 2
    assert "artifact_invalid:" in (said := capsys.readouterr().err) and "--force" in said
    assert main(["convert", str(directory), "-o", str(output), "--force"]) == 0
    assert capsys.readouterr().out.startswith(f"{output}: toy-model (toy, bf16)")


def test_files_left_out_are_named(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "extra.safetensors").write_bytes(b"")
    assert main(["convert", str(directory), "-o", str(tmp_path / "m.ninfer")]) == 0
    assert "note: extra.safetensors is left out" in capsys.readouterr().err


def test_an_invalid_directory_lists_its_problems_and_writes_nothing(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "tokenizer.json").unlink()
    (directory / "chat_template.jinja").unlink()
    assert main(["convert", str(directory), "-o", str(tmp_path / "m.ninfer")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"artifact_invalid: {directory} cannot be used (2 problems):")
    assert "tokenizer.json is missing" in said and "chat_template.jinja is missing" in said
    assert not list(tmp_path.glob("*.ninfer")) and not list(tmp_path.glob(".*partial"))


def test_an_empty_model_id_is_a_usage_error(directory: Path, tmp_path: Path) -> None:
    assert main(["convert", str(directory), "-o", str(tmp_path / "m.ninfer"), "--model-id", " "]) == 2


def test_matrices_in_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handle, directory = tiny_artifact(), tmp_path / "tiny"
    directory.mkdir()
    for name, data in handle.header.resources.items():
        (directory / name).write_bytes(data)
    with handle.open_weights() as weights:
        tensors = {spec.name: weights.read(spec.name, torch.device("cpu")) for spec in handle.header.tensors}
    save_file(tensors, directory / "model.safetensors")
    output = tmp_path / "m.ninfer"
    assert main(["convert", str(directory), "-o", str(output), "--weights", "nvfp4"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{output}: tiny (qwen-hybrid, nvfp4)"
    assert main(["inspect", str(output)]) == 0
    said = capsys.readouterr().out
    assert "weights      nvfp4" in said and any(line.startswith("nvfp4 ") for line in said.splitlines())
    assert main(["convert", str(directory), "-o", str(output), "--weights", "int3"]) == 2


def test_a_family_that_encodes_nothing_says_so(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(directory), "-o", str(tmp_path / "m.ninfer"), "--weights", "fp8"]) == 2
    assert "family 'toy' names no matrices of it that can be stored as fp8" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.ninfer"))
