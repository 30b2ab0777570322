"""Matrices in codes that are made on the way: the same as a converted file has, whatever order they are read in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.config import parse_config
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.weights import Weights, load_weights

from ninfer_core.api.errors import ArtifactInvalid, PlanRejected
from ninfer_core.api.stored_matrix import WeightsFormat
from ninfer_core.artifact import ArtifactHandle, encoding, inventory_problems, open_artifact
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.artifact.encoding import encoded_artifact, encoding_problem
from ninfer_core.artifact.report import report_artifact
from ninfer_core.ops.linear import DenseMatrix, Fp8Matrix, Nvfp4Matrix, dense, encode_fp8, encode_nvfp4
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins import LoadedPlugin, PluginRegistry
from ninfer_core.testing.tiny import tiny_artifact, write_tiny_artifact

CPU = torch.device("cpu")
FORMS: tuple[WeightsFormat, ...] = ("fp8", "nvfp4")


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.fixture(scope="module")
def family(registry: PluginRegistry) -> LoadedPlugin:
    (offer,) = registry.offers("family")
    return registry.load(offer)


def loaded(handle: ArtifactHandle) -> Weights:
    header = handle.header
    assert inventory_problems(header, build_inventory(header), frozenset({"text"})) == []
    with handle.open_weights() as source:
        return load_weights(header, parse_config(header), source, "float32", CPU)


def same(first: Weights, second: Weights) -> bool:
    return all(
        torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for name in first.matrices
        for a, b in zip(first.matrices[name].tensors, second.matrices[name].tensors, strict=True)
    )


@pytest.mark.parametrize("weights", FORMS)
@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("chunk", [700, 6000, 10_000_000])
def test_matrices_are_the_codes_of_their_numbers(
    family: LoadedPlugin, monkeypatch: pytest.MonkeyPatch, weights: WeightsFormat, experts: bool, chunk: int
) -> None:
    """In chunks of ten rows and a rest, of a few experts and a rest, and of everything."""
    monkeypatch.setattr(encoding, "_CHUNK_ELEMENTS", chunk)
    plain = tiny_artifact(experts=experts)
    coded = encoded_artifact(plain, family, weights)
    assert coded.header.identity.weights_id == weights
    numbers, codes = loaded(plain), loaded(coded)
    encode = encode_fp8 if weights == "fp8" else encode_nvfp4
    kept = {"router", "shared_gate", "b_a"}
    for name, matrix in codes.matrices.items():
        if name.rsplit(".", 1)[-1] in kept:
            assert isinstance(matrix, DenseMatrix)
            continue
        assert isinstance(matrix, Fp8Matrix if weights == "fp8" else Nvfp4Matrix)
        if name.endswith(("mixer_out", "down", "head")):  # one part, so that its scale is the matrix's own
            expected = encode(dense(numbers.matrices[name]))
            for ours, theirs in zip(matrix.tensors, expected.tensors, strict=True):
                assert torch.equal(ours.view(torch.uint8), theirs.reshape(ours.shape).view(torch.uint8))
    assert all(torch.equal(numbers.tensors[name], codes.tensors[name]) for name in numbers.tensors)


@pytest.mark.parametrize("weights", FORMS)
def test_any_order_and_any_part(family: LoadedPlugin, weights: WeightsFormat) -> None:
    coded = encoded_artifact(tiny_artifact(experts=True), family, weights)
    names = [spec.name for spec in coded.header.tensors if "layers.0." in spec.name]
    with coded.open_weights() as source:
        forward = {name: source.read(name, CPU) for name in names}
        for name in reversed(names):
            expected = forward[name].reshape(-1)
            assert torch.equal(source.read(name, CPU).reshape(-1).view(torch.uint8), expected.view(torch.uint8))
            middle = torch.empty_like(expected[expected.numel() // 3 :])
            source.read_into(name, middle, expected.numel() // 3)
            assert torch.equal(middle.view(torch.uint8), expected[expected.numel() // 3 :].view(torch.uint8))
    for name in names:
        assert b"".join(coded.store.chunks(name)) == bytes(forward[name].reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize("weights", FORMS)
@pytest.mark.parametrize("moe", [False, True])
def test_a_converted_directory_has_the_same_codes(
    tmp_path: Path, registry: PluginRegistry, family: LoadedPlugin, weights: WeightsFormat, moe: bool
) -> None:
    directory = write_directory(tmp_path / "model", experts=moe)
    done = convert_directory(str(directory), tmp_path / "out.ninfer", registry, weights=weights)
    assert done.identity.weights_id == weights
    stored = open_artifact(str(done.path), registry)
    on_the_way = encoded_artifact(open_artifact(str(directory), registry), family, weights)
    assert stored.header.tensors and {s.name: s for s in stored.header.tensors} == {
        s.name: s for s in on_the_way.header.tensors
    }
    assert same(loaded(stored), loaded(on_the_way))
    again = convert_directory(str(directory), tmp_path / "again.ninfer", registry, weights=weights)
    assert again.path.read_bytes() == done.path.read_bytes()


@pytest.mark.parametrize(("weights", "bits"), [("fp8", 8 + 32 / 64), ("nvfp4", 4 + 8 / 16)])
def test_a_report_has_the_forms_and_their_bytes(
    tmp_path: Path, registry: PluginRegistry, weights: WeightsFormat, bits: float
) -> None:
    """Rows of 64 to 160 inputs share a scale of 32 bits; of nvfp4 only one scale in 16 inputs counts."""
    directory = write_directory(tmp_path / "model", experts=True)
    path = convert_directory(str(directory), tmp_path / "out.ninfer", registry, weights=weights).path
    report = report_artifact(str(path), registry)
    assert report.valid
    coded, plain = report.forms
    assert (coded.form, plain.form) == (weights, "plain")
    assert coded.bytes + plain.bytes == sum(line.bytes for line in report.tensors)
    assert (
        coded.weights + plain.weights
        == sum(line.bytes for line in report_artifact(str(directory), registry).tensors) / 4
    )
    assert abs(coded.bits_per_weight - bits) < 0.6


def write_directory(folder: Path, *, experts: bool) -> Path:
    """The tiny model as a Hugging Face directory."""
    from safetensors.torch import save_file

    handle = tiny_artifact(experts=experts)
    folder.mkdir()
    for name, data in handle.header.resources.items():
        (folder / name).write_bytes(data)
    with handle.open_weights() as source:
        tensors = {spec.name: source.read(spec.name, CPU) for spec in handle.header.tensors}
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_codes_are_not_made_from_codes(tmp_path: Path, registry: PluginRegistry, family: LoadedPlugin) -> None:
    directory = write_directory(tmp_path / "model", experts=False)
    path = convert_directory(str(directory), tmp_path / "m.ninfer", registry, weights="fp8").path
    stored = open_artifact(str(path), registry)
    assert encoding_problem(stored.header, family, "fp8") is None
    assert encoded_artifact(stored, family, "fp8") is stored
    for wanted in ("bf16", "nvfp4"):
        with pytest.raises(PlanRejected) as caught:
            prepare(ServeOptions(artifact=str(path), weights=wanted, device="cpu"), registry)
        (problem,) = caught.value.problems
        assert problem.code == "weights_form" and problem.remedy == "leave --weights out"
        assert f"--weights {wanted}: the weights are stored as fp8" in problem.message


def test_a_plan_for_codes(tmp_path: Path, registry: PluginRegistry) -> None:
    path = str(write_tiny_artifact(tmp_path / "m.ninfer"))
    prepared = {
        weights: prepare(ServeOptions(artifact=path, weights=weights, device="cpu"), registry)
        for weights in (None, "bf16", "fp8", "nvfp4")
    }
    assert prepared["bf16"].notes == () and len(prepared["fp8"].notes) == 1
    assert "`ninfer convert --weights fp8` does it once" in prepared["fp8"].notes[0]
    plans = {weights: each.plan for weights, each in prepared.items()}
    assert plans[None] == plans["bf16"] and plans[None].identity.weights_id == "fp32"
    assert len({plan.digest for plan in plans.values()}) == 3
    assert plans["nvfp4"].identity.weights_id == "nvfp4"
    held = [plans[weights].ledger.line("weights").bytes for weights in (None, "fp8", "nvfp4")]
    assert held == sorted(held, reverse=True)


def test_a_family_that_names_no_matrices(registry: PluginRegistry) -> None:
    class Without:
        hook = type("Hook", (), {"ninfer_family_matrices": staticmethod(lambda header: None)})
        offer = type("Offer", (), {"name": "plain"})

    family: Any = Without
    assert encoding_problem(tiny_artifact().header, family, "fp8") == (
        "family 'plain' names no matrices of it that can be stored as fp8"
    )


def test_a_source_that_cannot_be_encoded_is_not_converted(tmp_path: Path, registry: PluginRegistry) -> None:
    directory = write_directory(tmp_path / "model", experts=False)
    coded = convert_directory(str(directory), tmp_path / "m.ninfer", registry, weights="nvfp4")
    with pytest.raises(ArtifactInvalid, match="only a Hugging Face directory"):
        convert_directory(str(coded.path), tmp_path / "n.ninfer", registry, weights="fp8")


def test_matrices_whose_inputs_do_not_divide_stay_plain(family: LoadedPlugin) -> None:
    handle = tiny_artifact(experts=True)
    config = {**handle.header.config, "moe_intermediate_size": 24}
    header = msgspec.structs.replace(handle.header, config=config, tensors=())
    header = msgspec.structs.replace(header, tensors=build_inventory(header))
    coded = encoded_artifact(ArtifactHandle(header=header, notes=(), store=handle.store), family, "nvfp4")
    forms = {
        spec.name.partition("experts.")[2]: spec.dtype
        for spec in coded.header.tensors
        if "layers.0.mlp.experts." in spec.name
    }
    assert forms["gate_up_proj"] == "uint8" and forms["down_proj"] == "bfloat16"
