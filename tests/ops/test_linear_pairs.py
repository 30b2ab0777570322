"""Two maps of the same x in one launch, against float64 and against launches apart."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix, Linear, Matrix, Norm, dense
from ninfer_core.ops.linear.reference import ReferenceLinear
from ninfer_core.ops.workspace.linear_tiles import BESIDE, ROW_CLASSES
from ninfer_core.testing.tolerances import FP32_OPERATION, Tolerance
from tests.ops.test_linear_kernels import EPSILON, FORMATS


@pytest.fixture(scope="module")
def linear(kernel_device: torch.device) -> Linear:
    from ninfer_core.ops.linear.select import triton_route

    return triton_route(kernel_device)


def matrix_of(form: str, outputs: int, inputs: int, device: torch.device, dtype: torch.dtype) -> Matrix:
    return FORMATS[form]((torch.randn(outputs, inputs) / inputs**0.5).to(device, dtype))


def norm_of(width: int, device: torch.device) -> Norm:
    return Norm((torch.randn(width) / 4).to(device), EPSILON)


def product(x: torch.Tensor, norm: Norm | None, matrix: Matrix) -> torch.Tensor:
    wide = x.double()
    if norm is not None:
        root = (wide.square().mean(-1, keepdim=True) + norm.epsilon).sqrt()
        wide = wide / root * (1 + norm.weight.double())
    return wide @ dense(matrix, torch.float64).T


@pytest.mark.parametrize("inputs", [192, 1088])
@pytest.mark.parametrize("form", FORMATS)
def test_a_pair_is_two_products(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str, inputs: int
) -> None:
    """Of 1,088 inputs both matrices have programs that share them; every launch leaves the counters as they were."""
    matrix = matrix_of(form, 70, inputs, kernel_device, dtype)
    beside = matrix_of("dense", 20, inputs, kernel_device, dtype)
    norm = norm_of(inputs, kernel_device)
    for rows, row_class, given in ((1, 8, norm), (8, 8, None), (24, 24, norm)):
        x = torch.randn(rows, inputs).to(kernel_device, dtype)
        once = linear.pair(x, matrix, beside, row_class, norm=given)
        for actual, expected in zip(once, (matrix, beside), strict=True):
            tolerance.check(actual, product(x, given, expected))
        again = linear.pair(x, matrix, beside, row_class, norm=given)
        assert all(torch.equal(*both) for both in zip(once, again, strict=True))
        if kernel_device.type == "cuda":  # the interpreter's products depend on the shape of a tile
            apart = (linear(x, matrix, row_class, norm=given), linear(x, beside, row_class, norm=given))
            assert all(torch.equal(*both) for both in zip(once, apart, strict=True))


def test_pairs_that_are_two_launches(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance
) -> None:
    """Many rows of a prompt, a matrix in codes beside the other, inputs that no kernel reads, no rows."""
    norm = norm_of(72, kernel_device)
    fp8, dense_one = (matrix_of(form, 24, 72, kernel_device, dtype) for form in ("fp8", "dense"))
    for rows, row_class, matrix, beside in (
        (150, 0, dense_one, dense_one),
        (3, DECODE_ROWS, dense_one, fp8),
        (3, DECODE_ROWS, fp8, dense_one),
        (0, DECODE_ROWS, dense_one, dense_one),
    ):
        x = torch.randn(rows, 72).to(kernel_device, dtype)
        for actual, expected in zip(
            linear.pair(x, matrix, beside, row_class, norm=norm), (matrix, beside), strict=True
        ):
            tolerance.check(actual, product(x, norm, expected))


def test_axes_are_kept(linear: Linear, kernel_device: torch.device, dtype: torch.dtype) -> None:
    matrix, beside = (matrix_of("dense", outputs, 64, kernel_device, dtype) for outputs in (40, 6))
    x = torch.randn(6, 64).to(kernel_device, dtype)
    flat = linear.pair(x, matrix, beside, DECODE_ROWS)
    shaped = linear.pair(x.view(3, 2, 64), matrix, beside, DECODE_ROWS)
    assert torch.equal(shaped[0], flat[0].view(3, 2, 40))
    assert torch.equal(shaped[1], flat[1].view(3, 2, 6))


def test_the_reference_says_the_same() -> None:
    reference, device = ReferenceLinear(), torch.device("cpu")
    norm, matrix = norm_of(32, device), matrix_of("fp8", 24, 32, device, torch.float32)
    x = torch.randn(2, 3, 32)
    for actual in reference.pair(x, matrix, DenseMatrix(dense(matrix)), norm=norm):
        FP32_OPERATION.check(actual, product(x, norm, matrix))


def test_every_class_has_a_tile_for_the_matrix_beside() -> None:
    assert set(BESIDE) == set(ROW_CLASSES)
