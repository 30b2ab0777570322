"""Checkpoints in 8 and 4 bits, as their makers lay them out: loaded, they are the numbers that their codes stand for.

Each is written here from a plain checkpoint, matrix by matrix, with decoders of its own; the plain checkpoint of the
decoded numbers is what it is compared with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from ninfer_models.qwen_hybrid.config import parse_config
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.resident import build_resident
from ninfer_models.qwen_hybrid.weights import Weights, load_weights
from safetensors.torch import load_file, save_file

from ninfer_core.api import ArtifactHeader, ArtifactInvalid
from ninfer_core.artifact import inventory_problems, open_artifact
from ninfer_core.ops.linear import Fp8Matrix, Matrix, Nvfp4Matrix, dense
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tolerances import FP32_LOGITS

CPU = torch.device("cpu")
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
Coded = tuple[dict[str, torch.Tensor], torch.Tensor]
"""The tensors of a matrix by the ending of their names, and the numbers they stand for."""

PROJECTIONS = ("in_proj_qkv", "in_proj_z", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")


def fp8_codes(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Every code that is a number."""
    codes = torch.randint(0, 254, shape, generator=generator, dtype=torch.int64)
    return (codes + (codes >= 127)).to(torch.uint8).view(torch.float8_e4m3fn)


def fp8_blocks(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.bfloat16) -> Coded:
    codes = fp8_codes(shape, generator)
    rows, columns = -(-shape[0] // 128), -(-shape[1] // 128)
    scale = (0.0005 * (1 + torch.rand(rows, columns, generator=generator))).to(dtype)
    wide = scale.float().repeat_interleave(128, 0)[: shape[0]].repeat_interleave(128, 1)[:, : shape[1]]
    return {".weight": codes, ".weight_scale_inv": scale}, codes.float() * wide


def fp8_blocks_float32(shape: tuple[int, ...], generator: torch.Generator) -> Coded:
    return fp8_blocks(shape, generator, torch.float32)


def fp8_whole(shape: tuple[int, ...], generator: torch.Generator) -> Coded:
    codes, scale = fp8_codes(shape, generator), torch.rand((), generator=generator) * 0.001
    unused = {".input_scale": torch.tensor(1.0), ".k_scale": torch.tensor([1.0])}
    return {".weight": codes, ".weight_scale": scale, **unused}, codes.float() * scale


def fp8_rows(shape: tuple[int, ...], generator: torch.Generator) -> Coded:
    codes, scale = fp8_codes(shape, generator), torch.rand(shape[0], 1, generator=generator) * 0.001
    return {".weight": codes, ".weight_scale": scale}, codes.float() * scale


def nvfp4_parts(shape: tuple[int, ...], generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Packed codes, block scales, and the product of both."""
    nibbles = torch.randint(0, 16, shape, generator=generator)
    packed = (nibbles[:, 0::2] + 16 * nibbles[:, 1::2]).to(torch.uint8)
    scale = (torch.rand(shape[0], shape[1] // 16, generator=generator) * 400).to(torch.float8_e4m3fn)
    return packed, scale, E2M1[nibbles] * scale.float().repeat_interleave(16, 1)


def nvfp4_modelopt(shape: tuple[int, ...], generator: torch.Generator) -> Coded:
    packed, scale, product = nvfp4_parts(shape, generator)
    second = torch.rand((), generator=generator) * 1e-4
    coded = {".weight": packed, ".weight_scale": scale, ".weight_scale_2": second, ".input_scale": torch.tensor(1.0)}
    return coded, product * second


def nvfp4_packed(shape: tuple[int, ...], generator: torch.Generator) -> Coded:
    packed, scale, product = nvfp4_parts(shape, generator)
    divisor = 5000 + 1000 * torch.rand(1, generator=generator)
    coded = {
        ".weight_packed": packed,
        ".weight_scale": scale,
        ".weight_global_scale": divisor,
        ".input_global_scale": torch.ones(1),
    }
    return coded, product * (1.0 / divisor)


Encode = Callable[[tuple[int, ...], torch.Generator], Coded]
LAYOUTS: Mapping[str, tuple[dict[str, object], Callable[[str], Encode | None]]] = {
    "fp8 in blocks": (
        {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
        lambda name: fp8_blocks if name in (*PROJECTIONS, *FEED_FORWARD) else None,
    ),
    "fp8 in float32 blocks": (
        {"quant_method": "fp8"},
        lambda name: fp8_blocks_float32 if name in (*PROJECTIONS, *FEED_FORWARD) else None,
    ),
    "modelopt, mixed": (
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        lambda name: (
            fp8_whole if name in PROJECTIONS else nvfp4_modelopt if name in (*FEED_FORWARD, "lm_head") else None
        ),
    ),
    "compressed-tensors": (
        {"quant_method": "compressed-tensors"},
        lambda name: fp8_rows if name in PROJECTIONS else nvfp4_packed if name in FEED_FORWARD else None,
    ),
    "parts in several forms": (
        {"quant_method": "modelopt"},
        lambda name: {"q_proj": fp8_rows, "k_proj": nvfp4_modelopt, "gate_proj": fp8_whole, "up_proj": None}.get(name),
    ),
    "gates in codes": (
        {"quant_method": "compressed-tensors"},
        lambda name: fp8_rows if name in (*PROJECTIONS, "in_proj_a", "in_proj_b") else None,
    ),
}


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "experts"])
def plain(request: pytest.FixtureRequest, make_checkpoint: Callable[..., Any]) -> Path:
    path: Path = make_checkpoint(moe=request.param, hidden_size=160).path
    return path


def write_pair(plain: Path, folder: Path, layout: str) -> tuple[Path, Path]:
    """The plain checkpoint with its matrices in codes, and with the numbers these stand for."""
    declared, encode_of = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(3)
    coded: dict[str, torch.Tensor] = {}
    decoded: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        stem = name.removesuffix(".weight")
        encode = encode_of(stem.rsplit(".", 1)[-1])
        if encode is None:
            coded[name] = decoded[name] = tensor
            continue
        parts, numbers = encode(tuple(tensor.shape), generator)
        coded.update({stem + ending: part for ending, part in parts.items()})
        decoded[name] = numbers
    for target, tensors in ((folder / "coded", coded), (folder / "decoded", decoded)):
        shutil.copytree(plain, target)
        save_file(tensors, target / "model.safetensors")
    config = json.loads((folder / "coded" / "config.json").read_text())
    (folder / "coded" / "config.json").write_text(json.dumps({**config, "quantization_config": declared}))
    return folder / "coded", folder / "decoded"


def loaded(path: Path, dtype: str = "float32") -> tuple[ArtifactHeader, Weights]:
    handle = open_artifact(str(path), PluginRegistry.discover())
    header = handle.header
    assert inventory_problems(header, build_inventory(header), frozenset({"text", "mtp"})) == []
    with handle.open_weights() as source:
        weights = load_weights(header, parse_config(header), source, dtype, CPU)
    return header, weights


def matrix_of(weights: Weights, name: str) -> torch.Tensor:
    if name.endswith("qkv_z_b_a") and name not in weights.matrices:
        stem = name.removesuffix("qkv_z_b_a")
        return torch.cat([dense(weights.matrices[stem + part]) for part in ("qkv_z", "b_a")])
    return dense(weights.matrices[name])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_codes_are_the_numbers_they_stand_for(plain: Path, tmp_path: Path, layout: str) -> None:
    coded, decoded = write_pair(plain, tmp_path, layout)
    _, found = loaded(coded)
    _, expected = loaded(decoded)
    for name in expected.matrices:
        torch.testing.assert_close(matrix_of(found, name), matrix_of(expected, name), rtol=2e-7, atol=0)
    for name, tensor in expected.tensors.items():
        assert torch.equal(found.tensors[name], tensor)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_ledger_has_what_is_loaded(plain: Path, tmp_path: Path, layout: str) -> None:
    header, weights = loaded(write_pair(plain, tmp_path, layout)[0], "bfloat16")
    held = [*weights.tensors.values(), *(part for matrix in weights.matrices.values() for part in matrix.tensors)]
    planned = build_resident(header, "bfloat16")
    assert sorted((spec.bytes, spec.dtype) for spec in planned) == sorted(
        (part.nbytes, str(part.dtype).removeprefix("torch.")) for part in held
    )


def forms(weights: Weights, layer: int, *names: str) -> set[type[Matrix]]:
    return {type(weights.matrices[f"layers.{layer}.{name}"]) for name in names}


def test_matrices_stay_in_their_codes(plain: Path, tmp_path: Path) -> None:
    _, weights = loaded(write_pair(plain, tmp_path, "modelopt, mixed")[0])
    experts = "layers.0.router" in weights.matrices
    feed_forward = (
        ("experts_gate_up", "experts_down", "shared_gate_up", "shared_down") if experts else ("gate_up", "down")
    )
    assert forms(weights, 0, "qkv_z", "mixer_out") == forms(weights, 3, "query_gate_key_value") == {Fp8Matrix}
    assert forms(weights, 0, *feed_forward) == {Nvfp4Matrix} == {type(weights.matrices["head"])}
    assert weights.matrices["layers.0.b_a"].tensors[0].dtype == torch.float32


def test_fused_experts(plain: Path, tmp_path: Path) -> None:
    """One tensor for all experts, with scales beside it that have the same leading axis."""
    folder = shutil.copytree(plain, tmp_path / "fused")
    tensors = load_file(folder / "model.safetensors")
    if not any(".experts." in name for name in tensors):
        pytest.skip("this checkpoint has no experts")
    generator, numbers = torch.Generator().manual_seed(4), {}
    for name in [name for name in tensors if ".experts." in name]:
        del tensors[name]
    for layer in range(4):
        stem = f"model.layers.{layer}.mlp.experts."
        for name, shape in (("gate_up_proj", (64, 160)), ("down_proj", (160, 32))):
            parts, values = zip(*(fp8_blocks(shape, generator) for _ in range(8)), strict=True)
            tensors[stem + name] = torch.stack([part[".weight"] for part in parts])
            tensors[f"{stem}{name}_scale_inv"] = torch.stack([part[".weight_scale_inv"] for part in parts])
            numbers[f"layers.{layer}.experts_{name.removesuffix('_proj')}"] = torch.stack(values)
    save_file(tensors, folder / "model.safetensors")
    _, weights = loaded(folder)
    for name, expected in numbers.items():
        assert isinstance(weights.matrices[name], Fp8Matrix)
        torch.testing.assert_close(dense(weights.matrices[name]), expected, rtol=2e-7, atol=0)


def test_scales_of_a_cache_are_allowed_and_not_read(plain: Path, tmp_path: Path) -> None:
    coded, _ = write_pair(plain, tmp_path, "compressed-tensors")
    _, expected = loaded(coded)
    stem = "model.layers.3.self_attn"
    scales = {f"{stem}.{name}_scale": torch.tensor([0.5]) for name in "kv"}
    save_file(load_file(coded / "model.safetensors") | scales, coded / "model.safetensors")
    _, found = loaded(coded)
    name = "layers.3.query_gate_key_value"
    assert torch.equal(dense(found.matrices[name]), dense(expected.matrices[name]))


def test_gates_in_codes_join_the_rest(plain: Path, tmp_path: Path) -> None:
    _, weights = loaded(write_pair(plain, tmp_path, "gates in codes")[0])
    assert forms(weights, 0, "qkv_z_b_a") == {Fp8Matrix}


def test_scales_in_blocks_are_kept_by_row(plain: Path, tmp_path: Path) -> None:
    _, weights = loaded(write_pair(plain, tmp_path, "fp8 in blocks")[0])
    matrix = weights.matrices["layers.0.qkv_z"]
    assert isinstance(matrix, Fp8Matrix) and matrix.scale.shape == (matrix.outputs, 2)  # 160 inputs: two blocks


@pytest.mark.parametrize("layout", ["modelopt, mixed", "fp8 in blocks"])
@pytest.mark.parametrize("moe", [False, True])
def test_a_model_says_with_codes_what_it_says_with_their_numbers(
    make_checkpoint: Callable[..., Any], tmp_path: Path, layout: str, moe: bool
) -> None:
    checkpoint, logits = make_checkpoint(moe=moe, hidden_size=160), []
    for path in write_pair(checkpoint.path, tmp_path, layout):
        subject = replace(checkpoint, path=path).subject()
        run = subject.harness()
        run.begin(0)
        prompt = run.prefill(0, list(range(70)))
        step = run.decode([0], [[3]], [0])
        logits.append(torch.cat([run.logits(prompt), run.logits(step)[0]]))
    FP32_LOGITS.check(*logits)


def test_what_the_name_of_the_form_is(plain: Path, tmp_path: Path) -> None:
    for layout, weights_id in (("fp8 in blocks", "fp8"), ("compressed-tensors", "nvfp4")):
        header, _ = loaded(write_pair(plain, tmp_path / weights_id, layout)[0])
        assert header.identity.weights_id == weights_id


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({".weight_scale_inv": None}, "float8_e4m3fn [64, 160]; supported:"),
        ({".weight_scale_inv": torch.ones(3, 7)}, "_scale_inv float32 [3, 7]; supported:"),
        ({".weight": torch.zeros(64, 160, dtype=torch.int8)}, "codes int8 [64, 160], _scale_inv bfloat16 [1, 2]"),
        ({".weight": torch.zeros(64, 80, dtype=torch.uint8)}, "codes uint8 [64, 80]"),
    ],
)
def test_a_form_that_is_not_read_is_named_with_those_that_are(
    make_checkpoint: Callable[..., Any], tmp_path: Path, changes: Mapping[str, torch.Tensor | None], words: str
) -> None:
    coded, _ = write_pair(make_checkpoint(hidden_size=160).path, tmp_path, "fp8 in blocks")
    stem = "model.layers.3.self_attn.k_proj"
    tensors = load_file(coded / "model.safetensors")
    for ending, tensor in changes.items():
        del tensors[stem + ending]
        if tensor is not None:
            tensors[stem + ending] = tensor
    save_file(tensors, coded / "model.safetensors")
    header = open_artifact(str(coded), PluginRegistry.discover()).header
    with pytest.raises(ArtifactInvalid) as caught:
        build_inventory(header)
    (problem,) = caught.value.problems
    assert stem in problem and words in problem


def test_a_method_that_is_not_read_is_named(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "awq")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(
        ArtifactInvalid, match="method 'awq'; those that are read are fp8, modelopt, compressed-tensors"
    ):
        open_artifact(str(folder), PluginRegistry.discover())
