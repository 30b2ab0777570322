from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from ninfer_core.api.errors import StartFailed
from ninfer_core.artifact.weights import FileWeights
from ninfer_core.bench import upload
from ninfer_core.bench.records import Run
from ninfer_core.cli.main import main
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.tiny import write_tiny_artifact


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    return str(write_tiny_artifact(tmp_path / "tiny.ninfer"))


@pytest.mark.parametrize("weights", [[], ["--weights", "fp8"]])
def test_a_file_is_loaded_twice_and_its_content_checked(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], weights: list[str]
) -> None:
    arguments = [artifact, "--device", "cpu", "--output", str(tmp_path), *weights]
    assert main(["bench", "upload", *arguments]) == 0
    assert "% of the slower" in capsys.readouterr().out
    (path,) = tmp_path.glob("upload-*.json")
    run = msgspec.json.decode(path.read_bytes(), type=Run)
    assert [figure.case for figure in run.figures] == ["upload cold", "upload cached"]
    for figure in run.figures:
        assert figure.floor_seconds is not None and min(figure.floor_seconds, figure.seconds) > 0
    assert [check.name for check in run.checks] == ["content"] and run.failed == ()


def test_other_bytes_than_those_of_the_file_fail(artifact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Run:
        options = ServeOptions(artifact=artifact, device="cpu")
        return upload.bench_upload(options, PluginRegistry.discover(), lambda line: None)

    assert run().failed == ()
    read_into = FileWeights.read_into

    def with_a_wrong_bit(weights: FileWeights, name: str, out: torch.Tensor, start: int = 0) -> None:
        read_into(weights, name, out, start)
        out.view(-1).view(torch.uint8)[-1] ^= 1

    monkeypatch.setattr(FileWeights, "read_into", with_a_wrong_bit)
    broken = run()
    assert [check.name for check in broken.failed] == ["content"] and broken.covered().figures == ()


def test_a_dummy_has_no_file() -> None:
    options = ServeOptions(artifact="dummy:qwen3.8-27b", assume_device_memory=200 << 30)
    with pytest.raises(StartFailed, match="no file whose reading could be measured"):
        upload.bench_upload(options, PluginRegistry.discover(), lambda line: None)
