"""Weights on their way to a CUDA device: read ahead, encoded there, and what they leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ninfer_models.qwen_hybrid.config import parse_config
from ninfer_models.qwen_hybrid.resident import build_resident
from ninfer_models.qwen_hybrid.weights import Weights, load_weights

from ninfer_core.artifact import ArtifactHandle, open_artifact, read_ahead
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.plugins import LoadedPlugin, PluginRegistry
from ninfer_core.program.workspace import weights_for
from ninfer_core.testing.tiny import write_tiny_artifact
from tests.gpu.first_layers import first_layers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MIB = 1 << 20
SOME_LAYERS = 8
FORMS = ("fp32", "fp8", "nvfp4")


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.fixture(scope="module")
def family(registry: PluginRegistry) -> LoadedPlugin:
    (offer,) = registry.offers("family")
    return registry.load(offer)


def loaded(handle: ArtifactHandle, device: torch.device) -> Weights:
    with handle.open_weights() as source, torch.inference_mode():
        return load_weights(handle.header, parse_config(handle.header), weights_for(device, source), "bfloat16", device)


def bits(weights: Weights) -> dict[str, list[torch.Tensor]]:
    found = {name: [tensor] for name, tensor in weights.tensors.items()}
    found.update({name: list(matrix.tensors) for name, matrix in weights.matrices.items()})
    return {name: [tensor.cpu().view(torch.uint8) for tensor in tensors] for name, tensors in found.items()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("experts", [False, True])
def test_a_file_arrives_as_it_does_on_the_cpu(
    tmp_path: Path,
    registry: PluginRegistry,
    family: LoadedPlugin,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    experts: bool,
) -> None:
    """Encoding included: its arithmetic is the same on both. Pieces far smaller than a tensor, buffers used again."""
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 4096)
    monkeypatch.setattr(read_ahead, "BUFFERS", 5)
    path = write_tiny_artifact(tmp_path / "m.ninfer", experts=experts)
    handle = encoded_artifact(open_artifact(str(path), registry), family, form)
    expected, found = (bits(loaded(handle, torch.device(kind))) for kind in ("cpu", "cuda"))
    assert expected.keys() == found.keys()
    for name in expected:
        assert all(map(torch.equal, expected[name], found[name])), name


@pytest.mark.parametrize("layers", [SOME_LAYERS, pytest.param(None, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("form", ["bf16", "fp8", "nvfp4"])
def test_a_model_of_real_shapes_takes_what_the_plan_says(
    registry: PluginRegistry, family: LoadedPlugin, form: str, layers: int | None
) -> None:
    handle = open_artifact("dummy:qwen3.8-27b", registry)
    if layers is not None:
        handle = first_layers(handle.header, layers)
    handle = encoded_artifact(handle, family, form)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    weights = loaded(handle, torch.device("cuda"))
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_reserved() - before
    planned = sum(spec.bytes for spec in build_resident(handle.header, "bfloat16"))
    assert abs(taken - planned) < 64 * MIB
    assert weights.matrices
