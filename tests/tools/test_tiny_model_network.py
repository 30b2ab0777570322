"""The trainable network: packing leaks nothing, decoding equals the parallel form, transformers agrees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tools.tiny_model.decode import fresh_states, next_logits
from tools.tiny_model.delta import unit_lower_inverse
from tools.tiny_model.export import load_weights, save_weights
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.template import ASSETS


@pytest.fixture(scope="module")
def model() -> TinyModel:
    torch.manual_seed(3)
    small = replace(
        Geometry.read(),
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        layer_types=("linear_attention", "full_attention"),
    )
    network = TinyModel(small).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            # Norms at their start value would hide a forgotten or doubled one.
            if "norm" in name or "dt_bias" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    return network


@torch.no_grad()
def test_packed_dialogues_do_not_see_each_other(model: TinyModel) -> None:
    tokens = torch.randint(0, 64, (1, 48))
    positions = torch.cat((torch.arange(16), torch.arange(32)))[None]
    packed = model(tokens, positions, 16)
    apart = [model(part, torch.arange(part.shape[1])[None], 16) for part in (tokens[:, :16], tokens[:, 16:])]
    assert torch.allclose(packed, torch.cat(apart, dim=1), atol=1e-5)


@torch.no_grad()
def test_decoding_equals_the_parallel_form(model: TinyModel) -> None:
    tokens = torch.randint(0, 64, (2, 24))
    parallel = model(tokens, torch.arange(24).expand(2, -1), 8)
    states = fresh_states(model, 2, 24)
    stepped = torch.stack([next_logits(model, tokens[:, step], states, step) for step in range(24)], dim=1)
    assert torch.allclose(parallel, stepped, atol=1e-5)


@torch.no_grad()
def test_transformers_computes_the_same(model: TinyModel) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(ASSETS)
    small = {name: getattr(model.geometry, name) for name in ("vocab_size", "hidden_size", "intermediate_size")}
    config.update(
        {
            **small,
            "num_hidden_layers": 2,
            "layer_types": list(model.geometry.layer_types),
            "eos_token_id": 1,
            "pad_token_id": 0,
        }
    )
    theirs = transformers.Qwen3_5ForCausalLM(config).float().eval()
    missing, unexpected = theirs.load_state_dict(model.state_dict(), strict=False)
    assert (list(missing), list(unexpected)) in ((["lm_head.weight"], []), ([], []))
    tokens = torch.randint(0, 64, (1, 64))
    difference = theirs(tokens).logits - model(tokens, torch.arange(64)[None], 64)
    assert difference.abs().max() < 1e-4


@torch.no_grad()
def test_transformers_computes_the_same_with_experts() -> None:
    transformers = pytest.importorskip("transformers")
    directory = ASSETS / "moe"
    torch.manual_seed(4)
    ours = TinyModel(Geometry.read(directory / "config.json")).eval()
    config = transformers.AutoConfig.from_pretrained(directory)
    theirs = transformers.Qwen3_5MoeForCausalLM(config).float().eval()
    missing, unexpected = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert (list(missing), list(unexpected)) in ((["lm_head.weight"], []), ([], []))
    tokens = torch.randint(0, 4000, (1, 32))
    difference = theirs(tokens).logits - ours(tokens, torch.arange(32)[None], 32)
    assert difference.abs().max() < 1e-4


def test_inverse_and_its_gradient() -> None:
    lower = (0.3 * torch.randn(2, 16, 16, dtype=torch.float64)).tril(-1).requires_grad_()
    weights = torch.randn(2, 16, 16, dtype=torch.float64)
    identity = torch.eye(16, dtype=torch.float64)
    (ours,) = torch.autograd.grad((unit_lower_inverse(lower) * weights).sum(), lower)
    (theirs,) = torch.autograd.grad((torch.linalg.inv(identity + lower) * weights).sum(), lower)
    assert torch.allclose(unit_lower_inverse(lower), torch.linalg.inv(identity + lower))
    assert torch.allclose(ours.tril(-1), theirs.tril(-1))


def test_weights_come_back_from_their_file_beside_those_of_drafters(model: TinyModel, tmp_path: Path) -> None:
    save_weights(model, tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | {"mtp.norm.weight": torch.zeros(4)}, file)
    again = TinyModel(model.geometry)
    load_weights(again, tmp_path)
    for name, weight in again.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name].bfloat16().float())
