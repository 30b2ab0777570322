"""The expert layer at a published shape, against its formula in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

from ninfer_core.ops import moe
from ninfer_core.ops.linear import (
    DECODE_ROWS,
    DenseMatrix,
    Fp8Matrix,
    Matrix,
    Norm,
    Nvfp4Matrix,
    dense,
    encode_fp8,
    encode_nvfp4,
)
from ninfer_core.program.compilation import compiling_only
from ninfer_core.testing.tolerances import BF16_LAYER, FP8_LAYER

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

EXPERTS, TOP_K, HIDDEN, WIDTH = 256, 8, 2048, 512
EPSILON = 1e-6
ROWS, COLUMNS = (1, 8), (1, 2, 3, 5, 16)
PREFILLS = (1, 63, 1024, 4096, 4097)
LOOKED_AT = 16
"""Tokens that are compared: the formula reads the experts of each in float64."""
MARGIN = 0.1
"""How far the last chosen score is above the first that is not: no rounding moves a choice."""


def matrix(layout: str, *shape: int) -> Matrix:
    weight = torch.empty(*shape, dtype=torch.bfloat16, device="cuda").normal_(0, shape[-1] ** -0.5)
    if layout == "dense":
        return DenseMatrix(weight)
    encode = encode_fp8 if layout == "fp8" else encode_nvfp4
    if weight.dim() == 2:
        return encode(weight)
    parts = [encode(part) for part in weight.split(32)]
    tensors = [torch.cat(each) for each in zip(*(part.tensors for part in parts), strict=True)]
    return Fp8Matrix(*tensors) if layout == "fp8" else Nvfp4Matrix(*tensors)


@pytest.fixture(scope="module", params=["dense", "fp8", "nvfp4"])
def weights(request: pytest.FixtureRequest, layer: moe.FeedForward, norm: Norm) -> Iterator[moe.ExpertWeights]:
    """With the kernels compiled side by side: one after the other, each at its first launch, takes minutes."""
    torch.manual_seed(5)
    made = make(request.param)
    with compiling_only():
        for tokens, row_class in (
            *((rows * columns, DECODE_ROWS * columns) for columns in COLUMNS for rows in ROWS),
            *((tokens, 0) for tokens in PREFILLS),
        ):
            x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
            layer(x, made, row_class, norm=norm, residual=x)
    yield made


def make(layout: str) -> moe.ExpertWeights:
    return moe.ExpertWeights(
        router=torch.randn(EXPERTS, HIDDEN, device="cuda").mul(4 * HIDDEN**-0.5).bfloat16(),
        gate_up=matrix(layout, EXPERTS, 2 * WIDTH, HIDDEN),
        down=matrix(layout, EXPERTS, HIDDEN, WIDTH),
        shared_gate=torch.randn(1, HIDDEN, device="cuda").mul(HIDDEN**-0.5).bfloat16(),
        shared_gate_up=matrix(layout, 2 * WIDTH, HIDDEN),
        shared_down=matrix(layout, HIDDEN, WIDTH),
        per_token=TOP_K,
    )


@pytest.fixture(scope="module")
def norm() -> Norm:
    return Norm(torch.randn(HIDDEN, device="cuda") * 0.1, EPSILON)


def normed(x: torch.Tensor, norm: Norm) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + norm.weight.double())


def draw(tokens: int, weights: moe.ExpertWeights, norm: Norm) -> torch.Tensor:
    """Tokens whose choice is clear."""
    x = torch.randn(4 * tokens + 64, HIDDEN, device="cuda").bfloat16()
    scores = (normed(x, norm) @ weights.router.double().T).topk(TOP_K + 1, -1).values
    clear = x[scores[:, -2] - scores[:, -1] > MARGIN]
    assert clear.shape[0] >= tokens
    return clear[:tokens].contiguous()


def swiglu(values: torch.Tensor) -> torch.Tensor:
    gate, up = values.chunk(2, -1)
    return functional.silu(gate) * up


def of_expert(stacked: Matrix, expert: int) -> torch.Tensor:
    return dense(type(stacked)(*(tensor[expert] for tensor in stacked.tensors)), torch.float64)


def oracle(x: torch.Tensor, weights: moe.ExpertWeights, norm: Norm) -> torch.Tensor:
    h = normed(x, norm)
    scores, chosen = (h @ weights.router.double().T).topk(TOP_K, -1)
    y = torch.zeros_like(h)
    for token, (share, experts) in enumerate(zip(scores.softmax(-1), chosen.tolist(), strict=True)):
        for weight, expert in zip(share, experts, strict=True):
            inner = swiglu(of_expert(weights.gate_up, expert) @ h[token])
            y[token] += weight * (of_expert(weights.down, expert) @ inner)
    inner = swiglu(h @ dense(weights.shared_gate_up, torch.float64).T)
    opening = torch.sigmoid(h @ weights.shared_gate.double().T)
    return y + opening * (inner @ dense(weights.shared_down, torch.float64).T)


@pytest.fixture(scope="module")
def layer() -> moe.FeedForward:
    return moe.select(torch.device("cuda"), "auto")


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
def test_decode(layer: moe.FeedForward, weights: moe.ExpertWeights, norm: Norm, rows: int, columns: int) -> None:
    x = draw(rows * columns, weights, norm)
    nothing = torch.zeros_like(x)
    together = layer(x, weights, DECODE_ROWS * columns, norm=norm, residual=nothing)
    BF16_LAYER.check(together[:LOOKED_AT], oracle(x[:LOOKED_AT], weights, norm))
    for start in range(0, rows * columns, columns):
        alone = layer(x[start : start + columns], weights, DECODE_ROWS * columns, norm=norm, residual=nothing[:columns])
        assert torch.equal(alone, together[start : start + columns])


@pytest.mark.parametrize("tokens", PREFILLS)
def test_prefill(layer: moe.FeedForward, weights: moe.ExpertWeights, norm: Norm, tokens: int) -> None:
    x = draw(tokens, weights, norm)
    actual = layer(x, weights, norm=norm, residual=torch.zeros_like(x))
    assert actual.isfinite().all()
    tolerance = FP8_LAYER if isinstance(weights.gate_up, Fp8Matrix) else BF16_LAYER
    tolerance.check(actual[-LOOKED_AT:], oracle(x[-LOOKED_AT:], weights, norm))


def test_all_tokens_in_the_same_experts(layer: moe.FeedForward, weights: moe.ExpertWeights, norm: Norm) -> None:
    x = draw(1, weights, norm).expand(300, -1).contiguous()
    for part, row_class in ((x[:128], 128), (x, 0)):
        actual = layer(part, weights, row_class, norm=norm, residual=torch.zeros_like(part))
        assert torch.equal(actual, actual[:1].expand_as(actual))


def test_rounds_can_be_captured(layer: moe.FeedForward, weights: moe.ExpertWeights, norm: Norm) -> None:
    x = draw(8, weights, norm)
    eager = layer(x, weights, DECODE_ROWS, norm=norm, residual=x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    given = torch.zeros_like(x)
    with torch.cuda.graph(graph):
        captured = layer(given, weights, DECODE_ROWS, norm=norm, residual=given)
    for _ in range(3):
        captured.fill_(float("nan"))
        given.copy_(x)
        graph.replay()
        assert torch.equal(captured, eager)
