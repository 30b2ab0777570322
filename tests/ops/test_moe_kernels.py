"""The expert layer, its kernels above all, against its formula in float64: on a CUDA device, or in Triton's
interpreter."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional

from ninfer_core.ops import moe
from ninfer_core.ops.linear import DenseMatrix, Fp8Matrix, Matrix, Norm, dense, encode_fp8, encode_nvfp4, linear
from ninfer_core.ops.workspace import moe as moe_bytes
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.tolerances import BF16_LAYER, FP8_LAYER, FP32_OPERATION

EXPERTS, TOP_K, HIDDEN, WIDTH, SHARED_WIDTH = 6, 3, 160, 32, 48
EPSILON = 1e-6
FORMATS = ["dense", "fp8", "fp8_groups", "nvfp4"]


def encode(weight: torch.Tensor, layout: str) -> Matrix:
    if layout == "dense":
        return DenseMatrix(weight)
    if layout == "nvfp4":
        return encode_nvfp4(weight)
    matrix = encode_fp8(weight)
    if layout == "fp8":
        return matrix
    groups = -(-weight.shape[-1] // 128)
    factors = torch.rand(*matrix.scale.shape[:-1], groups, device=weight.device) + 0.5
    return Fp8Matrix(matrix.codes, matrix.scale * factors)


def make_weights(
    device: torch.device,
    layout: str = "dense",
    shared_layout: str | None = None,
    dtype: torch.dtype = torch.float32,
    hidden: int = HIDDEN,
    width: int = WIDTH,
) -> moe.ExpertWeights:
    def matrix(form: str, *shape: int) -> Matrix:
        return encode((torch.randn(*shape) / shape[-1] ** 0.5).to(device, dtype), form)

    shared = layout if shared_layout is None else shared_layout
    return moe.ExpertWeights(
        router=torch.randn(EXPERTS, hidden).to(device, dtype),
        gate_up=matrix(layout, EXPERTS, 2 * width, hidden),
        down=matrix(layout, EXPERTS, hidden, width),
        shared_gate=(torch.randn(1, hidden) / hidden**0.5).to(device, dtype),
        shared_gate_up=matrix(shared, 2 * SHARED_WIDTH, hidden),
        shared_down=matrix(shared, hidden, SHARED_WIDTH),
        per_token=TOP_K,
    )


def make_norm(device: torch.device, hidden: int = HIDDEN) -> Norm:
    return Norm(torch.randn(hidden, device=device) * 0.1, EPSILON)


def oracle(x: torch.Tensor, weights: moe.ExpertWeights, norm: Norm, residual: torch.Tensor) -> torch.Tensor:
    """The formula of the package in float64; experts by its own scores."""
    wide = x.double()
    h = wide / (wide.square().mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + norm.weight.double())
    scores = h @ weights.router.double().T

    def swiglu(values: torch.Tensor) -> torch.Tensor:
        gate, up = values.chunk(2, -1)
        return functional.silu(gate) * up

    gate_up, down = dense(weights.gate_up, torch.float64), dense(weights.down, torch.float64)
    y = residual.double()
    for token in range(x.shape[0]):
        row = scores[token].tolist()
        chosen = sorted(range(EXPERTS), key=lambda expert: (-row[expert], expert))[:TOP_K]
        share = torch.softmax(scores[token, chosen], 0)
        for expert, weight in zip(chosen, share, strict=True):
            y[token] += weight * (down[expert] @ swiglu(gate_up[expert] @ h[token]))
    inner = swiglu(h @ dense(weights.shared_gate_up, torch.float64).T)
    opening = torch.sigmoid(h @ weights.shared_gate.double().T)
    return y + opening * (inner @ dense(weights.shared_down, torch.float64).T)


@pytest.fixture
def layer(kernel_device: torch.device) -> moe.FeedForward:
    from ninfer_core.ops.moe.routes import kernel_routes

    return kernel_routes(kernel_device, linear)


@pytest.fixture
def grouped(kernel_device: torch.device) -> moe.FeedForward:
    """The kernels for many tokens, in tiles that a few fill."""
    from ninfer_core.ops.moe.launch import Block
    from ninfer_core.ops.moe.many import ManyLaunch, ManyTable
    from ninfer_core.ops.moe.routes import kernel_routes

    many = kernel_routes(kernel_device, linear).many
    small = ManyLaunch(16, inner=Block(64, 64, 4, 2), outer=Block(64, 64, 4, 2))
    launches = ((40, small), (1 << 62, dataclasses.replace(small, tokens=32)))
    coded = ((1 << 62, ManyLaunch(16, inner=Block(32, 32, 4, 2), outer=Block(32, 16, 4, 2))),)
    return dataclasses.replace(many, table=ManyTable(launches, coded, launches))


@pytest.mark.parametrize("row_class", [0, 8])
@pytest.mark.parametrize("layout", FORMATS)
def test_reference(layout: str, row_class: int) -> None:
    weights, norm = make_weights(torch.device("cpu"), layout), make_norm(torch.device("cpu"))
    x, residual = torch.randn(2, 5, HIDDEN)
    actual = moe.feed_forward(x, weights, row_class, norm=norm, residual=residual)
    FP32_OPERATION.check(actual, oracle(x, weights, norm, residual))


@pytest.mark.parametrize("tokens", [1, 8, 17])
@pytest.mark.parametrize("layout", FORMATS)
def test_few_tokens(layer: moe.FeedForward, kernel_device: torch.device, layout: str, tokens: int) -> None:
    weights, norm = make_weights(kernel_device, layout), make_norm(kernel_device)
    x, residual = torch.randn(2, tokens, HIDDEN, device=kernel_device)
    actual = layer(x, weights, 8, norm=norm, residual=residual)
    FP32_OPERATION.check(actual, oracle(x, weights, norm, residual))


@pytest.mark.parametrize(
    ("layout", "tokens"),
    [
        *((layout, tokens) for layout in ("dense", "nvfp4") for tokens in (1, 40, 41)),
        *((layout, tokens) for layout in ("fp8", "fp8_groups") for tokens in (1, 41)),
    ],
)
def test_many_tokens(grouped: moe.FeedForward, kernel_device: torch.device, layout: str, tokens: int) -> None:
    weights, norm = make_weights(kernel_device, layout), make_norm(kernel_device)
    x = torch.randn(tokens, HIDDEN, device=kernel_device)
    nothing = torch.zeros_like(x)
    tolerance = FP8_LAYER if layout.startswith("fp8") else FP32_OPERATION  # codes are multiplied with codes
    tolerance.check(grouped(x, weights, norm=norm, residual=nothing), oracle(x, weights, norm, nothing))


@pytest.mark.parametrize("row_class", [0, 8])
def test_words_of_four_bit_codes_that_are_exchanged(
    layer: moe.FeedForward, kernel_device: torch.device, row_class: int
) -> None:
    weights, norm = make_weights(kernel_device, "nvfp4", hidden=256, width=128), make_norm(kernel_device, 256)
    x = torch.randn(3, 256, device=kernel_device)
    FP32_OPERATION.check(layer(x, weights, row_class, norm=norm, residual=x), oracle(x, weights, norm, x))


def test_experts_of_two_formats(grouped: moe.FeedForward, kernel_device: torch.device) -> None:
    weights, norm = make_weights(kernel_device, "fp8"), make_norm(kernel_device)
    weights = dataclasses.replace(weights, down=make_weights(kernel_device, "dense").down)
    x = torch.randn(20, HIDDEN, device=kernel_device)
    FP32_OPERATION.check(grouped(x, weights, norm=norm, residual=x), oracle(x, weights, norm, x))


@pytest.mark.parametrize("row_class", [128, 136])
def test_both_sides_of_the_border_between_few_and_many(
    layer: moe.FeedForward, kernel_device: torch.device, row_class: int
) -> None:
    weights, norm = make_weights(kernel_device), make_norm(kernel_device)
    x = torch.randn(2, row_class // 2, HIDDEN, device=kernel_device)
    actual = layer(x, weights, row_class, norm=norm, residual=x)
    assert actual.shape == x.shape
    FP32_OPERATION.check(actual.flatten(0, 1), oracle(x.flatten(0, 1), weights, norm, x.flatten(0, 1)))


def test_no_tokens(layer: moe.FeedForward, grouped: moe.FeedForward, kernel_device: torch.device) -> None:
    weights, norm = make_weights(kernel_device), make_norm(kernel_device)
    x = torch.empty(0, HIDDEN, device=kernel_device)
    for route in (layer, grouped):
        assert route(x, weights, 8, norm=norm, residual=x).shape == x.shape


def test_a_shared_expert_of_another_format(layer: moe.FeedForward, kernel_device: torch.device) -> None:
    weights, norm = make_weights(kernel_device, "nvfp4", "dense"), make_norm(kernel_device)
    x = torch.randn(3, HIDDEN, device=kernel_device)
    FP32_OPERATION.check(layer(x, weights, 8, norm=norm, residual=x), oracle(x, weights, norm, x))


def test_bfloat16(layer: moe.FeedForward, grouped: moe.FeedForward, kernel_device: torch.device) -> None:
    weights, norm = make_weights(kernel_device, dtype=torch.bfloat16), make_norm(kernel_device)
    # Scores far apart: the test measures the products and not a choice between near equals.
    weights = dataclasses.replace(weights, router=weights.router * 4)
    x = torch.randn(5, HIDDEN, device=kernel_device).bfloat16()
    for route in (layer, grouped):
        actual = route(x, weights, 8, norm=norm, residual=x)
        assert actual.dtype == torch.bfloat16
        BF16_LAYER.check(actual, oracle(x, weights, norm, x))


def test_equal_scores_go_to_the_lower_expert(
    layer: moe.FeedForward, grouped: moe.FeedForward, kernel_device: torch.device
) -> None:
    """So all tokens are in the same groups, and the other experts have none."""
    weights, norm = make_weights(kernel_device), make_norm(kernel_device)
    weights = dataclasses.replace(weights, router=torch.zeros_like(weights.router))
    x = torch.randn(20, HIDDEN, device=kernel_device)
    for route in (layer, grouped):
        FP32_OPERATION.check(route(x, weights, 32, norm=norm, residual=x), oracle(x, weights, norm, x))


def test_a_token_of_a_round_does_not_depend_on_the_others(layer: moe.FeedForward, kernel_device: torch.device) -> None:
    weights, norm = make_weights(kernel_device), make_norm(kernel_device)
    x = torch.randn(4, HIDDEN, device=kernel_device)

    def run(part: torch.Tensor) -> torch.Tensor:
        return layer(part, weights, 8, norm=norm, residual=part)

    together = run(x)
    for token in (0, 3):
        assert torch.equal(run(x[token : token + 1])[0], together[token])
    assert torch.equal(run(x.flip(0)).flip(0), together)


@pytest.mark.parametrize("layout", ["dense", "fp8", "nvfp4"])
@pytest.mark.parametrize("tokens", [3, 60])
def test_temporaries_are_within_their_bounds(
    layer: moe.FeedForward,
    grouped: moe.FeedForward,
    kernel_device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    tokens: int,
    layout: str,
) -> None:
    """Nothing is launched: the interpreter would count with copies of its own."""
    for module in ("router", "pairs", "few", "many"):
        monkeypatch.setattr(f"ninfer_core.ops.moe.{module}.start", lambda *_, **__: None)
    weights, norm = make_weights(kernel_device, layout, "dense"), make_norm(kernel_device)
    x = torch.randn(tokens, HIDDEN, device=kernel_device)
    sizes = {"tokens": tokens, "hidden": HIDDEN, "width": WIDTH, "activation": 4}
    counts = {"experts": EXPERTS, "per_token": TOP_K}
    few = moe_bytes.few_bytes(shared_width=SHARED_WIDTH, **sizes, **counts)
    used = peak_bytes(lambda: layer(x, weights, 64, norm=norm, residual=x))
    assert few / 2 < used <= few + 1024
    shared = tokens * (4 * SHARED_WIDTH * 4 + HIDDEN * 4)
    many = moe_bytes.many_bytes(coded=layout != "dense", **sizes, **counts) + shared
    used = peak_bytes(lambda: grouped(x, weights, norm=norm, residual=x))
    assert many / 2 < used <= many + 1024


@pytest.mark.parametrize("layout", ["fp8", "nvfp4"])
def test_temporaries_of_the_reference_are_within_their_bounds(layout: str) -> None:
    gate_up = encode(torch.randn(EXPERTS, 2 * 128, 256).bfloat16(), layout)
    down = encode(torch.randn(EXPERTS, 256, 128).bfloat16(), layout)
    x = torch.randn(4, 256).bfloat16()
    routing = moe.route(x, torch.randn(EXPERTS, 256).bfloat16(), TOP_K)
    sizes = {"tokens": 4, "hidden": 256, "width": 128, "activation": 2}
    bound = moe_bytes.decode_bytes(coded=True, **sizes)
    used = peak_bytes(lambda: moe.decode(x, gate_up, down, routing))
    assert bound / 3 < used <= bound
    bound = moe_bytes.prefill_bytes(per_token=TOP_K, coded=True, **sizes)
    used = peak_bytes(lambda: moe.prefill(x, gate_up, down, routing))
    assert bound / 3 < used <= bound


def test_counters_are_left_at_zero(kernel_device: torch.device) -> None:
    from ninfer_core.ops.moe.routes import kernel_routes

    routes = kernel_routes(kernel_device, linear)
    weights, norm = make_weights(kernel_device), make_norm(kernel_device)
    x = torch.randn(19, HIDDEN, device=kernel_device)
    for route in (routes.few, routes.many):
        first = route(x, weights, norm=norm, residual=x)
        assert not route.counters.any()
        assert torch.equal(route(x, weights, norm=norm, residual=x), first)
