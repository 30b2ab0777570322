"""Two maps in one launch, and norms that the writer of a stream prepares, against float64 and launches apart."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix, Linear, Matrix, Norm, Ready, Stream, dense
from ninfer_core.ops.linear.reference import ReferenceLinear
from ninfer_core.ops.linear.tiles import BESIDE, H200, ROW_CLASSES, SQUARED, SUMMING_CLASS, Form
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION, Tolerance
from tests.ops.test_linear_kernels import EPSILON, FORMATS

WIDTH = 192
"""Of streams here: groups of no power of two, and no multiple of the widest tiles."""


@pytest.fixture(scope="module")
def dtype(kernel_device: torch.device) -> torch.dtype:
    """The interpreter cannot multiply bfloat16."""
    return torch.bfloat16 if kernel_device.type == "cuda" else torch.float32


@pytest.fixture(scope="module")
def tolerance(dtype: torch.dtype) -> Tolerance:
    return BF16_OPERATION if dtype == torch.bfloat16 else FP32_OPERATION


@pytest.fixture(scope="module")
def linear(kernel_device: torch.device) -> Linear:
    from ninfer_core.ops.linear.select import triton_route

    return triton_route(kernel_device)


def matrix_of(form: str, outputs: int, inputs: int, device: torch.device, dtype: torch.dtype) -> Matrix:
    return FORMATS[form]((torch.randn(outputs, inputs) / inputs**0.5).to(device, dtype))


def norm_of(width: int, device: torch.device) -> Norm:
    return Norm((torch.randn(width) / 4).to(device), EPSILON)


def normed(x: torch.Tensor, norm: Norm) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + norm.epsilon).sqrt() * (1 + norm.weight.double())


def product(x: torch.Tensor, matrix: Matrix) -> torch.Tensor:
    return x.double() @ dense(matrix, torch.float64).T


def ready_by_hand(x: torch.Tensor, norm: Norm) -> Ready:
    """In groups of 32, x [rows, n · 32]."""
    wide = x.float()
    return Ready((wide * (1 + norm.weight)).to(x.dtype), wide.square().view(len(x), -1, 32).sum(-1))


def in_halves(values: torch.Tensor) -> torch.Tensor:
    """values [..., n], n a power of two -> [...]: the sum in the order that kernels add in."""
    while values.shape[-1] > 1:
        first, second = values.chunk(2, -1)
        values = first + second
    return values.squeeze(-1)


@pytest.mark.parametrize("row_class", [8, 24, 64])
@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_is_ready_for_its_norm(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: Form, row_class: int
) -> None:
    """Squares have one order of addition, whatever class or tile wrote them."""
    x = torch.randn(row_class, 64).to(kernel_device, dtype)
    residual = torch.randn(row_class, WIDTH).to(kernel_device, dtype)
    matrix, norm = matrix_of(form, WIDTH, 64, kernel_device, dtype), norm_of(WIDTH, kernel_device)
    for rows, given in ((1, residual[:1]), (row_class, None), (row_class, residual)):
        stream = linear.to_stream(x[:rows], matrix, row_class, residual=given, then=norm)
        wanted = product(x[:rows], matrix) + (0 if given is None else given.double())
        tolerance.check(stream.values, wanted)
        assert stream.ready is not None
        values = stream.values.float()
        assert torch.equal(stream.ready.scaled, (values * (1 + norm.weight)).to(dtype))
        parts = values.square().view(rows, -1, SQUARED[form])
        assert torch.equal(stream.ready.squares, in_halves(parts))


@pytest.mark.parametrize("row_class", [8, 24, 64])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_a_ready_stream_is_multiplied_as_its_norm(
    linear: Linear,
    kernel_device: torch.device,
    dtype: torch.dtype,
    tolerance: Tolerance,
    form: str,
    gated: bool,
    row_class: int,
) -> None:
    matrix, norm = matrix_of(form, 48, WIDTH, kernel_device, dtype), norm_of(WIDTH, kernel_device)
    first = matrix_of("fp8", WIDTH, 64, kernel_device, dtype)
    x = 3 * torch.randn(row_class, 64).to(kernel_device, dtype)
    for rows in (1, row_class):
        stream = linear.to_stream(x[:rows], first, row_class, then=norm)
        wanted = product(normed(stream.values, norm), matrix)
        if gated:
            gate, up = wanted.chunk(2, -1)
            wanted = gate / (1 + (-gate).exp()) * up
        tolerance.check(linear(stream, matrix, row_class, gated=gated), wanted)


@pytest.mark.parametrize("inputs", [WIDTH, 1088])
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_a_pair_is_two_products(
    linear: Linear,
    kernel_device: torch.device,
    dtype: torch.dtype,
    tolerance: Tolerance,
    form: str,
    prepared: bool,
    inputs: int,
) -> None:
    """Of 1,088 inputs both matrices have programs that share them; every launch leaves the counters as they were."""
    matrix = matrix_of(form, 70, inputs, kernel_device, dtype)
    beside = matrix_of("dense", 20, inputs, kernel_device, dtype)
    norm = norm_of(inputs, kernel_device)
    for rows, row_class in ((1, 8), (24, 24)):
        x = torch.randn(rows, inputs).to(kernel_device, dtype)
        stream = Stream(x, norm, ready_by_hand(x, norm) if prepared else None)
        wide = normed(stream.values, norm)
        once = linear.pair(stream, matrix, beside, row_class)
        for actual, expected in zip(once, (matrix, beside), strict=True):
            tolerance.check(actual, product(wide, expected))
        again = linear.pair(stream, matrix, beside, row_class)
        assert all(torch.equal(*pair) for pair in zip(once, again, strict=True))
        if kernel_device.type == "cuda":  # the interpreter's products depend on the shape of a tile
            apart = (linear(stream, matrix, row_class), linear(stream, beside, row_class))
            assert all(torch.equal(*pair) for pair in zip(once, apart, strict=True))


@pytest.mark.parametrize("rows", [8 + SUMMING_CLASS, 7])
def test_factors_do_not_depend_on_who_makes_them(kernel_device: torch.device, dtype: torch.dtype, rows: int) -> None:
    """By the launch that sorts, by one of their own, and by programs of a product, seen through a matrix of one."""
    from ninfer_core.ops.linear.few import Factor, Share, linear_few_rows
    from ninfer_core.ops.linear.sort import factors_of, sort_scaled
    from ninfer_core.ops.linear.tiles import Tile

    scaled = torch.ones(rows, 64).to(kernel_device, dtype)
    squares = torch.rand(rows, 10).to(kernel_device)
    alone = factors_of(squares, 64, EPSILON)
    FP32_OPERATION.check(alone, (squares.double().sum(1) / 64 + EPSILON).rsqrt())
    assert torch.equal(sort_scaled(scaled, "fp8", squares, EPSILON)[1], alone)
    weight = torch.zeros(16, 64).to(kernel_device, dtype)
    weight[:, 5] = 1
    counters = torch.zeros(4, dtype=torch.int32, device=kernel_device)
    share = Share(DenseMatrix(weight), Tile(16, 64, 2, 1), 1)
    for factor in (Factor(squares, EPSILON), Factor(alone, EPSILON)):
        seen = linear_few_rows(scaled, share, 16, counters, factor=factor)
        assert torch.equal(seen, alone.to(dtype).unsqueeze(1).expand(-1, 16))


def test_streams_that_nothing_is_prepared_of(linear: Linear, kernel_device: torch.device, dtype: torch.dtype) -> None:
    """Those of a prompt, and those whose reader applies its own norm or none."""
    matrix, norm = matrix_of("dense", 32, 64, kernel_device, dtype), norm_of(32, kernel_device)
    x = torch.randn(3, 2, 64).to(kernel_device, dtype)
    for row_class, then in ((0, norm), (DECODE_ROWS, None)):
        stream = linear.to_stream(x, matrix, row_class, then=then)
        assert (stream.norm, stream.ready) == (then, None)
        assert torch.equal(stream.values, linear(x, matrix, row_class))
    empty = linear.to_stream(x[:0], matrix, DECODE_ROWS, then=norm)
    assert empty.values.shape == (0, 2, 32)


def test_the_reference_says_the_same() -> None:
    reference, device = ReferenceLinear(), torch.device("cpu")
    norm, matrix = norm_of(32, device), matrix_of("fp8", 24, 32, device, torch.float32)
    x, residual = torch.randn(2, 3, 16), torch.randn(2, 3, 32)
    first = matrix_of("dense", 32, 16, device, torch.float32)
    stream = reference.to_stream(x, first, residual=residual, then=norm)
    FP32_OPERATION.check(stream.values, product(x, first) + residual.double())
    wanted = product(normed(stream.values, norm), matrix)
    FP32_OPERATION.check(reference(stream, matrix), wanted)
    both = reference.pair(stream, matrix, DenseMatrix(dense(matrix)))
    FP32_OPERATION.check(both[0], wanted)
    FP32_OPERATION.check(both[1], wanted)


def test_every_tile_can_sum_its_squares() -> None:
    for (form, _), row in H200.items():
        assert row.narrow.outputs % SQUARED[form] == 0
        assert row.wide.outputs % SQUARED[form] == 0
    assert set(BESIDE) == set(ROW_CLASSES)


def test_what_is_ready_has_planned_bytes(linear: Linear, kernel_device: torch.device, dtype: torch.dtype) -> None:
    from ninfer_core.ops.workspace.linear import ready_bytes

    norm = norm_of(40, kernel_device)
    for form in FORMATS:
        matrix = matrix_of(form, 40, 64, kernel_device, dtype)
        ready = linear.to_stream(torch.randn(5, 64).to(kernel_device, dtype), matrix, 8, then=norm).ready
        assert isinstance(ready, Ready)
        planned = ready_bytes(rows=5, width=40, activation=dtype.itemsize)
        assert ready.scaled.nbytes + ready.squares.nbytes <= planned
