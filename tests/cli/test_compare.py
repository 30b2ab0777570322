from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from ninfer_models import qwen_hybrid

from ninfer_core.api.errors import StartFailed
from ninfer_core.artifact import open_artifact
from ninfer_core.cli import compare as command
from ninfer_core.cli.main import main
from ninfer_core.plan.sizing import build_shape
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.comparison import Subject, compare
from ninfer_core.program.observation import observed
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.tiny import tiny_plan, write_tiny_artifact


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_artifact(tmp_path_factory.mktemp("compare") / "tiny.ninfer"))


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["compare", *arguments, "--device", "cpu", "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_same_thing_is_not_apart(
    artifact: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "CHUNK_TOKENS", 128)  # several chunks
    found = compared(capsys, artifact, artifact, "--tokens", "300")
    assert found["tokens"] == 300 and [each["layer"] for each in found["layers"]] == [0, 1, 2, 3]
    assert all(each["relative_error"] == each["worst_token"] == 0.0 for each in found["layers"])
    token = found["next_token"]
    assert token["largest_divergence"] == 0.0 and token["top_1_agreement"] == 1.0
    assert token["loss_a"] == token["loss_b"] > 0
    assert found["a"]["digest"] == found["b"]["digest"]


def test_fewer_bits_are_further_apart(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    fp8, nvfp4 = (compared(capsys, artifact, "--weights", form, "--tokens", "120") for form in ("fp8", "nvfp4"))
    assert [each["weights"] for each in (fp8["a"], fp8["b"], nvfp4["b"])] == ["fp32", "fp8", "nvfp4"]
    for low, high in zip(fp8["layers"], nvfp4["layers"], strict=True):
        assert 0 < low["relative_error"] < high["relative_error"] < 1
        assert low["relative_error"] <= low["worst_token"]
    divergences = [each["next_token"]["mean_divergence"] for each in (fp8, nvfp4)]
    assert 0 < divergences[0] < divergences[1]


def test_the_numbers_are_those_of_the_logits(artifact: str) -> None:
    registry = PluginRegistry.discover()
    handle = open_artifact(artifact, registry)
    plan = tiny_plan(registry, handle.header, max_context=128, prefill_chunk=128)
    tokens = [int(token) for token in torch.randint(0, 250, (40,), generator=torch.Generator().manual_seed(0))]
    subject = Subject(plan, handle.header, handle.open_weights)
    found = compare(subject, subject, registry, tokens, lambda name, seconds: None)
    with handle.open_weights() as weights:
        model = qwen_hybrid.ninfer_family_build(
            header=handle.header,
            shape=build_shape(plan.capacities, plan.activation_dtype, plan.kernels),
            weights=weights,
            device=torch.device("cpu"),
        )
    run = ModelHarness(model, plan.geometry, device=torch.device("cpu"))
    run.begin(0)
    logits = run.logits(run.prefill(0, tokens))[:-1, : plan.token_domain]
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:]))
    assert math.isclose(found.next_token.loss_a, float(expected), rel_tol=1e-5)


def test_a_table_for_people(artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Ein kurzer Text.")
    assert main(["compare", artifact, "--weights", "fp8", "--device", "cpu", "--text", str(text)]) == 0
    out = capsys.readouterr().out
    for word in ("RELATIVE ERROR", "KL(A || B)", "same best token", "loss of the text", "fp8"):
        assert word in out


def test_what_cannot_be_compared(artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experts = str(write_tiny_artifact(tmp_path / "experts.ninfer", experts=True))
    assert main(["compare", artifact, "--device", "cpu"]) == 2
    assert "what is different" in capsys.readouterr().err
    assert main(["compare", artifact, "embedded:ninfer-tiny", "--device", "cpu"]) == 2
    assert "not_comparable" in capsys.readouterr().err
    assert main(["compare", artifact, experts, "--device", "cpu", "--tokens", "16"]) == 0
    (tmp_path / "latin").write_bytes(b"\xe9")
    assert main(["compare", artifact, experts, "--text", str(tmp_path / "latin")]) == 2
    assert "no UTF-8 at byte 0" in capsys.readouterr().err


def test_a_model_without_the_door(artifact: str) -> None:
    class Plain:
        def prefill(self, batch: Any) -> Any: ...

        decode = fold = logits = prefill

    with pytest.raises(StartFailed, match="Plain has no prefill_observed"):
        observed(Plain())
