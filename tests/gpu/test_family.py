"""The qwen-hybrid family on a CUDA device: 16-bit numbers, capture, and what its workspace really is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.text import TextModel, build_text_model
from ninfer_models.qwen_hybrid.workspace import workspace_bytes

from ninfer_core.api import ArtifactHeader, BuildShape, Kernels, KVLayout, TensorSpec
from ninfer_core.ops.sample import Purpose, SamplerRows, sample, uniform
from ninfer_core.plan.memory import attention_bytes, sampling_bytes
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.tolerances import BF16_EXPERT_LOGITS, BF16_LOGITS, FP32_LOGITS, Agreement

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MIB = 1 << 20
SMALL: Mapping[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_num_value_heads": 8,
    "linear_value_head_dim": 16,
    "max_position_embeddings": 512,
}
SMALL_DENSE: Mapping[str, Any] = {**SMALL, "model_type": "qwen3_5_text", "intermediate_size": 160}
SMALL_MOE: Mapping[str, Any] = {
    **SMALL,
    "model_type": "qwen3_5_moe_text",
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}
CONFIGS = pytest.mark.parametrize("config", [SMALL_DENSE, SMALL_MOE], ids=["dense", "experts"])
AGREEING = pytest.mark.parametrize(
    ("config", "tolerance"), [(SMALL_DENSE, BF16_LOGITS), (SMALL_MOE, BF16_EXPERT_LOGITS)], ids=["dense", "experts"]
)
PUBLISHED = pytest.mark.parametrize("name", ["qwen3.8-27b", "qwen3.6-35b-a3b"])


class MadeWeights:
    """Weights that are made by their name when they are read."""

    def __init__(self, header: ArtifactHeader) -> None:
        self._specs: dict[str, TensorSpec] = {spec.name: spec for spec in header.tensors}

    def expect(self, names: Iterable[str]) -> None:
        return

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        raise NotImplementedError

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        out.view(-1).copy_(self.read(name, out.device).view(-1)[start : start + out.numel()])


class RandomWeights(MadeWeights):
    """bfloat16 weights of unit scale by name: matrices N(0, 1 / fan in), vectors 0.1 N(0, 1) around their start."""

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        shape = self._specs[name].shape
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
        values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        if len(shape) == 1:
            values = 0.1 * values + ("linear_attn.norm" in name)
        elif "embed_tokens" not in name:
            values = values * shape[-1] ** -0.5
        return values.bfloat16().to(device)


class DeviceWeights(MadeWeights):
    """Weights of published shapes, made where they are wanted; their values do not matter."""

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        return torch.empty(self._specs[name].shape, dtype=torch.bfloat16, device=device).normal_(std=0.02)


def _header(config: Mapping[str, Any]) -> ArtifactHeader:
    """A model of this config, without the drafter that the dummy has."""
    dummy = dummy_headers({})["qwen3.8-27b"]
    header = msgspec.structs.replace(dummy, config=dict(config), resources={}, tensors=())
    return msgspec.structs.replace(header, tensors=build_inventory(header))


def _build(header: ArtifactHeader, dtype: str, device: str, columns: int = 1) -> tuple[TextModel, ModelHarness]:
    """In float32 the reference, which is what there is for it."""
    where = torch.device(device)
    kernels: Kernels = "reference" if dtype == "float32" else "auto"
    model = build_text_model(header, dtype, columns, RandomWeights(header), where, kernels)
    geometry = build_geometry(header, dtype)
    return model, ModelHarness(model, geometry, device=where, activation_dtype=dtype, columns=columns)


def _logits(run: ModelHarness, tokens: list[int], decoded: int) -> torch.Tensor:
    """Logits of every position: a prefill, then `decoded` rounds of one column."""
    run.begin(1)
    start = len(tokens) - decoded
    hidden = [run.prefill(1, tokens[:start])]
    hidden += [run.decode([1], [[tokens[i]]], [int(i > start)])[0] for i in range(start, len(tokens))]
    return run.logits(torch.cat(hidden)).cpu()


def _tokens(count: int) -> list[int]:
    return torch.randint(0, 512, (count,), generator=torch.Generator().manual_seed(3)).tolist()


@CONFIGS
def test_float32_is_the_cpu(config: Mapping[str, Any]) -> None:
    header, tokens = _header(config), _tokens(100)
    expected = _logits(_build(header, "float32", "cpu")[1], tokens, 10)
    FP32_LOGITS.check(_logits(_build(header, "float32", "cuda")[1], tokens, 10), expected)


@AGREEING
def test_bfloat16_agrees_with_float32_on_the_cpu(config: Mapping[str, Any], tolerance: Agreement) -> None:
    header, tokens = _header(config), _tokens(200)
    expected = _logits(_build(header, "float32", "cpu")[1], tokens, 20)
    tolerance.check(_logits(_build(header, "bfloat16", "cuda")[1], tokens, 20), expected)


@CONFIGS
@torch.inference_mode()
def test_a_round_can_be_captured(config: Mapping[str, Any]) -> None:
    model, run = _build(_header(config), "bfloat16", "cuda", columns=3)
    for slot in range(4):
        run.begin(slot)
        run.prefill(slot, _tokens(60 + slot))
    ids = [_tokens(4 * (slot + 1))[-3:] for slot in range(4)]
    run.decode(range(4), ids, [0] * 4)
    accepted = [2, 0, 3, 1]
    for slot, columns in enumerate(accepted):
        run.advance(slot, columns)
    batch = run.batch(range(4), ids, accepted, prefill=False)
    before = {name: pool.clone() for name, pool in (run.arrays | run.records).items()}
    expected = model.logits(model.decode(batch).flatten(0, 1))  # also loads what may not be loaded while capturing
    after = [run.committed(slot) for slot in range(4)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = model.logits(model.decode(batch).flatten(0, 1))
    for name, pool in (run.arrays | run.records).items():
        pool.copy_(before[name])
    graph.replay()
    assert expected.isfinite().all()
    assert torch.equal(captured, expected)
    for slot, states in enumerate(after):
        assert all(torch.equal(state, run.committed(slot)[name]) for name, state in states.items())


def _sampler_inputs() -> tuple[torch.Tensor, SamplerRows, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = 256
    parameters = SamplerRows(
        temperature=torch.rand(rows, generator=generator) * (torch.arange(rows) % 4 > 0),
        top_p=torch.rand(rows, generator=generator),
        top_k=torch.randint(1, 21, (rows,), generator=generator),
        min_p=torch.rand(rows, generator=generator) * 0.2,
        presence_penalty=torch.rand(rows, generator=generator),
        frequency_penalty=torch.rand(rows, generator=generator),
        seed=torch.randint(-(1 << 63), (1 << 63) - 1, (rows,), generator=generator),
    )
    logits = (torch.randn(rows, 1000, generator=generator) * 16).round() / 4  # many equal ones
    counts = torch.randint(0, 3, (rows, 1000), generator=generator, dtype=torch.int32)
    return logits, parameters, counts, torch.arange(rows), torch.arange(rows) * 7


def test_sampling_draws_the_same_tokens_as_on_the_cpu() -> None:
    logits, parameters, *others = _sampler_inputs()
    expected = sample(logits, parameters, *others, token_domain=990)
    there = SamplerRows(*(getattr(parameters, name).cuda() for name in SamplerRows.__slots__))
    actual = sample(logits.cuda(), there, *(each.cuda() for each in others), token_domain=990)
    assert torch.equal(actual.cpu(), expected)


def test_random_numbers_have_the_same_bits_as_on_the_cpu() -> None:
    seeds = torch.randint(-(1 << 63), (1 << 63) - 1, (10_000,), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(10_000)
    expected = uniform(seeds, positions, Purpose.TOKEN)
    assert torch.equal(uniform(seeds.cuda(), positions.cuda(), Purpose.TOKEN).cpu(), expected)


@PUBLISHED
@pytest.mark.parametrize("kernels", ["auto", "reference"])
@torch.inference_mode()
def test_the_workspace_holds_the_largest_units_of_work(name: str, kernels: Kernels) -> None:
    """Four layers of the published shape: every kind of layer, and the largest unit is the same in all of them."""
    header = dummy_headers({})[name]
    header = _header({**header.config, "num_hidden_layers": 4})
    device = torch.device("cuda")
    model = build_text_model(header, "bfloat16", 1, DeviceWeights(header), device, kernels)
    geometry = build_geometry(header, "bfloat16")
    run = ModelHarness(model, geometry, device=device, activation_dtype="bfloat16", max_context=4096)
    shape = BuildShape(
        prefill_tokens=1024,
        decode_rows=8,
        decode_columns=1,
        max_context=4096,
        activation_dtype="bfloat16",
        kernels=kernels,
    )
    # The harness attends by the reference, which a plan counts beside a model of kernels.
    attention = attention_bytes(geometry, KVLayout(planes=()), shape) if kernels == "auto" else 0
    bound = max(workspace_bytes(header, shape) + attention, sampling_bytes(geometry, shape))
    for slot in range(8):
        run.begin(slot)
        run.prefill(slot, [1] * 1024)
    used = {}
    for unit in ("prefill", "decode"):
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        if unit == "prefill":
            hidden = run.prefill(0, [1] * 1024)[-1:]
        else:
            hidden = run.decode(range(8), [[1]] * 8, [0] * 8)[:, 0]
        _draw(run.logits(hidden), geometry.vocabulary_rows)
        used[unit] = torch.cuda.max_memory_allocated() - held
    assert max(used.values()) <= bound, f"{used} of {bound}"
    if kernels == "reference":
        assert max(used.values()) >= bound / 2, f"the bound is far above what is used: {used} of {bound}"


def _draw(logits: torch.Tensor, token_domain: int) -> torch.Tensor:
    rows = logits.shape[0]
    settings = torch.ones(rows, device=logits.device)
    whole = torch.ones(rows, dtype=torch.int64, device=logits.device)
    parameters = SamplerRows(settings, settings, whole * 20, settings * 0, settings, settings, whole)
    counts = torch.zeros(logits.shape, dtype=torch.int32, device=logits.device)
    return sample(logits, parameters, counts, whole.cumsum(0) - 1, whole, token_domain)
