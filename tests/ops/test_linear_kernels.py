"""The kernels of linear layers against float64: every format, what is fused, and their boundaries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ninfer_core.ops.linear import (
    DECODE_ROWS,
    DenseMatrix,
    Fp8Matrix,
    Linear,
    Matrix,
    Norm,
    Nvfp4Matrix,
    dense,
    encode_fp8,
    encode_nvfp4,
    select,
)
from ninfer_core.ops.workspace.linear_tiles import H200, ROW_CLASSES, FewRows, Kind, Tile, class_for
from ninfer_core.testing.tolerances import Tolerance


def encode_groups(weight: torch.Tensor) -> Fp8Matrix:
    groups = -(-weight.shape[-1] // 128)
    coded = encode_fp8(weight)
    return Fp8Matrix(coded.codes, coded.scale * (torch.rand(weight.shape[0], groups, device=weight.device) + 0.5))


FORMATS: dict[str, Callable[[torch.Tensor], Matrix]] = {
    "dense": DenseMatrix,
    "fp8": encode_fp8,
    "fp8_groups": encode_groups,
    "nvfp4": encode_nvfp4,
}
EPSILON = 1e-6
RAGGED = {"dense": 320, "fp8": 320, "fp8_groups": 320, "nvfp4": 384}
"""Inputs that no tile divides: as odd as the kernels take them."""
KINDS: tuple[Kind, ...] = ("gated", "narrow", "wide")


@pytest.fixture(scope="module")
def linear(kernel_device: torch.device) -> Linear:
    """The route of a CUDA device, wherever it runs."""
    from ninfer_core.ops.linear.select import triton_route

    route = triton_route(kernel_device)
    assert type(select(torch.device("cuda"), "auto")) is type(route) if kernel_device.type == "cuda" else True
    return route


def expected(
    x: torch.Tensor, matrix: Matrix, norm: Norm | None, residual: torch.Tensor | None, *, gated: bool
) -> torch.Tensor:
    wide = x.double()
    if norm is not None:
        root = (wide.square().mean(-1, keepdim=True) + norm.epsilon).sqrt()
        wide = wide / root * (1 + norm.weight.double())
    y = wide @ dense(matrix, torch.float64).T
    if gated:
        gate, up = y.chunk(2, -1)
        y = gate / (1 + (-gate).exp()) * up
    return y if residual is None else y + residual.double()


def arguments(
    device: torch.device, dtype: torch.dtype, rows: int, inputs: int, outputs: int, form: str
) -> tuple[torch.Tensor, Matrix, Norm, torch.Tensor]:
    x = (2 * torch.randn(rows, inputs)).to(device, dtype)
    weight = (torch.randn(outputs, inputs) / inputs**0.5).to(device, dtype)
    norm = Norm((torch.randn(inputs) / 4).to(device, dtype), EPSILON)
    return x, FORMATS[form](weight), norm, torch.randn(rows, outputs).to(device, dtype)


@pytest.mark.parametrize("fused", ["", "norm", "residual", "norm residual", "gated norm", "gated norm residual"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_few_rows(
    linear: Linear,
    kernel_device: torch.device,
    dtype: torch.dtype,
    tolerance: Tolerance,
    form: str,
    ragged: bool,
    fused: str,
) -> None:
    inputs = RAGGED[form] if ragged else 256
    for rows in (1, 3):
        x, matrix, norm, residual = arguments(kernel_device, dtype, rows, inputs, 70, form)
        gated = "gated" in fused
        given_norm = norm if "norm" in fused else None
        given = (residual[:, :35] if gated else residual).contiguous() if "residual" in fused else None
        actual = linear(x, matrix, DECODE_ROWS, norm=given_norm, residual=given, gated=gated)
        assert actual.dtype == dtype
        tolerance.check(actual, expected(x, matrix, given_norm, given, gated=gated))


@pytest.mark.parametrize("row_class", [8, 16, 24, 64, 128])
@pytest.mark.parametrize("form", FORMATS)
def test_every_class_at_its_edges(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str, row_class: int
) -> None:
    inputs = 384 if form == "nvfp4" else 192
    x, matrix, norm, residual = arguments(kernel_device, dtype, row_class, inputs, 24, form)
    whole = linear(x, matrix, row_class, norm=norm, residual=residual)
    tolerance.check(whole, expected(x, matrix, norm, residual, gated=False))
    for rows in (1, row_class - 1):
        part = linear(x[-rows:], matrix, row_class, norm=norm, residual=residual[-rows:])
        if kernel_device.type == "cuda":
            assert torch.equal(part, whole[-rows:])
        else:  # the interpreter's products depend on the shape of a tile and on the place in it
            tolerance.check(part, whole[-rows:].double())


@pytest.mark.parametrize("fused", ["", "norm residual", "gated"])
@pytest.mark.parametrize("form", FORMATS)
def test_programs_share_the_inputs_of_few_outputs(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str, fused: str
) -> None:
    """Twice, since the counters have to be as they were; in one class of rows, with a ragged last share."""
    inputs = 1792 if form == "nvfp4" else 1728
    x, matrix, norm, residual = arguments(kernel_device, dtype, 3, inputs, 40, form)
    gated, given_norm = "gated" in fused, norm if "norm" in fused else None
    given = residual if "residual" in fused else None
    once = linear(x, matrix, 24, norm=given_norm, residual=given, gated=gated)
    tolerance.check(once, expected(x, matrix, given_norm, given, gated=gated))
    assert torch.equal(linear(x, matrix, 24, norm=given_norm, residual=given, gated=gated), once)


def test_few_rows_of_a_large_class_run_in_the_smallest_that_adds_alike() -> None:
    for form, row_class in H200:
        for kind in KINDS:
            assert class_for(H200, form, kind, row_class, row_class) == row_class
            found = class_for(H200, form, kind, 3, row_class)
            if form != "nvfp4" or row_class <= 32:
                assert found == 8
            else:  # another order of additions
                assert found > 32


@pytest.mark.parametrize("form", FORMATS)
def test_programs_that_no_block_of_inputs_is_left_for_add_nothing(
    kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str
) -> None:
    from ninfer_core.ops.linear.few import Share, linear_few_rows

    # Five steps of inputs among four programs, or 17 among sixteen: two each, for three or nine of them.
    inputs, shares = (8320, 16) if form == "fp8_groups" else (2560, 4)
    tile = Tile(16, 128 if form == "fp8_groups" else 512, 2, 1)
    x, matrix, _, _ = arguments(kernel_device, dtype, 2, inputs, 16, form)
    counters = torch.zeros(4, dtype=torch.int32, device=kernel_device)
    few = FewRows(tile, row_class=8, shares=shares, sorted=False)
    actual = linear_few_rows(x, Share(matrix, few), counters)
    tolerance.check(actual, expected(x, matrix, None, None, gated=False))
    assert not counters.any()


@pytest.mark.parametrize("fused", ["", "norm", "residual", "gated norm"])
@pytest.mark.parametrize("form", FORMATS)
def test_many_rows(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str, fused: str
) -> None:
    x, matrix, norm, residual = arguments(kernel_device, dtype, 150, 128, 32, form)
    gated, given_norm = "gated" in fused, norm if "norm" in fused else None
    given = residual if "residual" in fused else None
    before = residual.clone()
    actual = linear(x, matrix, norm=given_norm, residual=given, gated=gated)
    assert torch.equal(residual, before)
    wanted = expected(x, matrix, given_norm, given, gated=gated)
    if form in ("fp8", "fp8_groups") and dtype == torch.bfloat16:  # 128 inputs are one group
        assert (actual.double() - wanted).norm() <= 0.05 * wanted.norm()  # activations have four bits
    else:
        tolerance.check(actual, wanted)


@pytest.mark.parametrize("form", ["fp8", "fp8_groups", "nvfp4"])
def test_inputs_that_no_kernel_reads_take_the_reference(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, tolerance: Tolerance, form: str
) -> None:
    for inputs in (48, 72) if form != "nvfp4" else (48, 192):
        x, matrix, norm, _ = arguments(kernel_device, dtype, 5, inputs, 24, form)
        tolerance.check(linear(x, matrix, 8, norm=norm), expected(x, matrix, norm, None, gated=False))


def test_leading_axes_and_no_rows(linear: Linear, kernel_device: torch.device, dtype: torch.dtype) -> None:
    x, matrix, norm, _ = arguments(kernel_device, dtype, 6, 64, 40, "dense")
    flat = linear(x, matrix, 8, norm=norm)
    assert torch.equal(linear(x.view(3, 2, 64), matrix, 8, norm=norm), flat.view(3, 2, 40))
    assert linear(x[:0], matrix, 8).shape == (0, 40)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_behind_the_rows_is_not_read(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, form: str
) -> None:
    x, matrix, norm, residual = arguments(kernel_device, dtype, 8, 128, 40, form)
    x[3:], residual[3:] = float("nan"), float("nan")
    for rows in (1, 3):
        assert linear(x[:rows], matrix, 8, norm=norm, residual=residual[:rows]).isfinite().all()


def test_the_table_has_every_form_and_class() -> None:
    assert set(H200) == {(form, row_class) for form in FORMATS for row_class in ROW_CLASSES}


def decoded(matrix: Fp8Matrix | Nvfp4Matrix) -> torch.Tensor:
    from ninfer_core.ops.linear.many import decode

    return decode(matrix, torch.float32)


def test_the_decoding_kernels_know_every_code(kernel_device: torch.device) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    codes[(codes & 127) == 127] = 0  # no weight is a NaN
    fp8 = Fp8Matrix(codes.view(torch.float8_e4m3fn).view(2, 128).to(kernel_device), torch.ones(2, 1).to(kernel_device))
    assert torch.equal(decoded(fp8), dense(fp8))
    words = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(128, 512)
    block_scale = torch.arange(128, dtype=torch.uint8).clamp(max=126)[:, None].expand(-1, 128).contiguous()
    nvfp4 = Nvfp4Matrix(
        words.view(torch.uint8).to(kernel_device),
        block_scale.view(torch.float8_e4m3fn).to(kernel_device),
        torch.linspace(0.1, 3, 128).to(kernel_device),
    )
    assert torch.equal(decoded(nvfp4), dense(nvfp4))


@pytest.mark.parametrize("form", ["fp8", "nvfp4"])
@pytest.mark.parametrize(("at_once", "row_class"), [(1, 8), (8, 8), (32, 32), (64, 64)])
def test_the_product_knows_every_code(
    linear: Linear, kernel_device: torch.device, dtype: torch.dtype, at_once: int, row_class: int, form: str
) -> None:
    """x picks one input at a time, so that every weight comes out alone: in words of every value of either byte."""
    matrix: Matrix
    if form == "fp8":
        codes = torch.arange(256, dtype=torch.uint8).view(2, 128)
        codes[(codes & 127) == 127] = 0
        matrix = Fp8Matrix(codes.view(torch.float8_e4m3fn).to(kernel_device), torch.ones(2, 1).to(kernel_device))
    else:
        words = (torch.arange(256) * 24413 % (1 << 16)).to(torch.int16).view(8, 32)
        block_scale = torch.tensor([1, 7, 8, 126] * 2, dtype=torch.uint8).view(torch.float8_e4m3fn).expand(8, -1)
        matrix = Nvfp4Matrix(
            words.view(torch.uint8).to(kernel_device),
            block_scale.contiguous().to(kernel_device),
            torch.ones(8).to(kernel_device),
        )
    one_hot = torch.eye(matrix.inputs).to(kernel_device, dtype)
    starts = range(0, matrix.inputs, at_once)
    picked = torch.cat([linear(one_hot[start : start + at_once], matrix, row_class) for start in starts])
    assert torch.equal(picked.float(), dense(matrix).T)
