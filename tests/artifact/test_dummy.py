from __future__ import annotations

import math
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

from ninfer_core.api.artifact import DRAFT_CONFIG, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import open_artifact, values
from ninfer_core.artifact.dummy import open_dummy
from ninfer_core.artifact.report import report_artifact
from ninfer_core.artifact.values import MATRIX, Normal, fill, law_of
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package
from ninfer_core.testing.toy_artifacts import FAMILY_MODULE, toy_specs, write_toy_family

CPU = torch.device("cpu")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_toy_family(tmp_path, package="dummy-toy")
    write_plugin_package(tmp_path, "dummy-broken", {"family:broken": "raise ImportError('no library')"})
    return PluginRegistry.discover(entry_points_in(tmp_path), {})


def made(name: str, shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=getattr(torch, dtype))
    fill(tensor, TensorSpec(name=name, shape=shape, dtype=dtype), seed)
    return tensor


def test_a_dummy_has_the_familys_header_and_weights_of_its_shapes(registry: PluginRegistry) -> None:
    handle = open_artifact("dummy:toy-small", registry)
    assert handle.header.source == "dummy:toy-small" and handle.header.identity.family == "toy"
    assert handle.notes == ("a toy",)
    assert [(spec.name, spec.shape) for spec in handle.header.tensors] == [(s.name, s.shape) for s in toy_specs()]
    with handle.open_weights() as weights:
        for spec in handle.header.tensors:
            tensor = weights.read(spec.name, CPU)
            assert tuple(tensor.shape) == spec.shape and tensor.dtype == torch.bfloat16 and tensor.isfinite().all()
        with pytest.raises(ArtifactInvalid, match="no tensor 'layers'"):
            weights.read("layers", CPU)
    with pytest.raises(ArtifactInvalid, match="no stored bytes"):
        handle.store.chunks("embed.weight")


def test_the_same_numbers_in_any_order_of_reading(registry: PluginRegistry) -> None:
    names = [spec.name for spec in toy_specs()]
    first, second = (open_dummy("toy-small", registry).open_weights() for _ in range(2))
    forward = {name: first.read(name, CPU) for name in names}
    backward = {name: second.read(name, CPU) for name in reversed(names)}
    assert all(torch.equal(forward[name], backward[name]) for name in names)
    assert not torch.equal(forward["layers.0.proj.weight"], forward["layers.1.proj.weight"])
    assert not torch.equal(made("a", (99,)), made("a", (99,), seed=1))


def test_an_unknown_dummy_comes_with_near_misses_and_with_who_could_not_be_asked(registry: PluginRegistry) -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        open_dummy("toy-smal", registry)
    assert caught.value.problems[0] == "no family offers it; did you mean 'toy-small'?; there is: dummy:toy-small"
    assert "no library" in caught.value.problems[1]


def test_two_families_with_one_dummy(registry: PluginRegistry, tmp_path: Path) -> None:
    write_plugin_package(tmp_path, "dummy-other", {"family:other": FAMILY_MODULE})
    with pytest.raises(ArtifactInvalid, match="several families offer it: other@dummy-other, toy@dummy-toy"):
        open_dummy("toy-small", PluginRegistry.discover(entry_points_in(tmp_path), {}))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_matrices_are_normal_with_the_familys_deviation(dtype: str) -> None:
    tensor = made("layers.0.mlp.up_proj.weight", (500, 400), dtype).float()
    assert abs(tensor.mean()) < 2e-4 and abs(tensor.std() - 0.02) < 2e-4 and tensor.abs().max() < 0.12


def test_vectors_follow_what_they_are_used_for() -> None:
    zero_centred = made("layers.0.input_layernorm.weight", (4000,))
    assert abs(zero_centred.mean()) < 0.01 and zero_centred.abs().max() < 0.4
    plain = made("layers.0.linear_attn.norm.weight", (4000,))
    assert abs(plain.mean() - 1) < 0.01 and plain.min() > 0.4
    decay = made("layers.0.linear_attn.A_log", (4000,)).exp()
    assert decay.min() >= 1 and decay.max() <= 16
    step = torch.nn.functional.softplus(made("layers.0.linear_attn.dt_bias", (4000,)))
    assert step.min() >= 0.99e-3 and step.max() <= 0.101 and step.max() / step.min() > 50
    assert made("token.ids", (4,), "int32").tolist() == [0, 1, 2, 3]


def test_only_whole_parts_of_a_name_choose_a_law() -> None:
    assert law_of(TensorSpec(name="xA_log", shape=(2, 2), dtype="float32")) == MATRIX
    assert law_of(TensorSpec(name="A_log", shape=(2,), dtype="float32")) != law_of(
        TensorSpec(name="b", shape=(2,), dtype="float32")
    )
    assert law_of(TensorSpec(name="x.norm1.weight", shape=(2,), dtype="float32")) == Normal(1.0, 0.1)


def test_chunks_neither_repeat_nor_leave_anything_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_CHUNK_ELEMENTS", 64)
    tensor = torch.full((5, 39), math.nan)
    fill(tensor, TensorSpec(name="m", shape=(5, 39), dtype="float32"), 0)
    assert tensor.isfinite().all() and tensor.unique().numel() > 190


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_weights_of_27b_are_made_in_seconds_and_without_large_temporaries() -> None:
    device = torch.device("cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with open_artifact("dummy:qwen3.8-27b", PluginRegistry.discover()).open_weights() as weights:
        weights.read("model.layers.0.mlp.up_proj.weight", device)
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        begin.record()
        kept = [weights.read(spec.name, device) for spec in weights_of("dummy:qwen3.8-27b")]
        end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) < 10_000
    assert torch.cuda.max_memory_allocated() - held - sum(tensor.nbytes for tensor in kept) < 32 * 1024 * 1024
    again = open_artifact("dummy:qwen3.8-27b", PluginRegistry.discover()).open_weights()
    assert torch.equal(kept[5], again.read(weights_of("dummy:qwen3.8-27b")[5].name, device))
    assert abs(kept[0].float().std() - 0.02) < 1e-4


def weights_of(source: str) -> tuple[TensorSpec, ...]:
    return open_artifact(source, PluginRegistry.discover()).header.tensors


@pytest.mark.parametrize(("name", "tensors"), [("qwen3.8-27b", 81), ("qwen3.6-35b-a3b", 69)])
def test_the_drafter_of_a_dummy_has_the_tensors_that_its_backend_knows(name: str, tensors: int) -> None:
    registry = PluginRegistry.discover()
    report = report_artifact(f"dummy:{name}", registry)
    header = open_dummy(name, registry).header
    drafted = [spec for spec in header.tensors if spec.group == "draft"]
    assert len(drafted) == tensors
    assert report.problems == () and {group.group for group in report.groups} >= {"text", "mtp", "draft", "draft_head"}


def test_a_dummy_is_without_drafter_where_no_backend_knows_it() -> None:
    families = tuple(entry_points(group="ninfer.family"))
    header = open_dummy("qwen3.8-27b", PluginRegistry.discover(families, {})).header
    assert DRAFT_CONFIG in header.resources
    assert not [spec for spec in header.tensors if spec.name.startswith("draft.")]
