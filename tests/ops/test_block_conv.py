"""The convolution over a block against its formula in float64; every route."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.block_conv import BlockConv, block_conv, select
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION


@pytest.fixture(params=["reference", "kernel"])
def route(request: pytest.FixtureRequest, kernel_device: torch.device) -> tuple[BlockConv, torch.device]:
    if request.param == "reference":
        return block_conv, torch.device("cpu")
    from ninfer_core.ops.block_conv import triton

    return triton.block_conv, kernel_device


def expected(x: torch.Tensor, base: torch.Tensor, delta: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
    rows, columns, width = x.shape
    taps, groups = delta.shape[2:]
    y = torch.zeros(rows, columns, width, dtype=torch.float64) if residual is None else residual.double().clone()
    group = torch.arange(width) // (width // groups)
    for column in range(columns):
        for tap in range(min(taps, column + 1)):
            factor = base[tap].double() + delta[:, column, tap].double()[:, group]
            y[:, column] += factor * x[:, column - tap].double()
    return y


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "taps", "width", "group"), [(1, 1, 2, 48, 16), (2, 4, 2, 64, 16), (2, 3, 4, 40, 8)]
)
def test_the_convolution(
    route: tuple[BlockConv, torch.device],
    rows: int,
    columns: int,
    taps: int,
    width: int,
    group: int,
    dtype: torch.dtype,
    with_residual: bool,
) -> None:
    conv, device = route
    x, base = torch.randn(rows, columns, width).to(dtype), torch.randn(taps, width).to(dtype)
    both = torch.randn(rows, columns, 2, taps, width // group).to(dtype)  # the coefficients of two sides
    residual = torch.randn(rows, columns, width).to(dtype) if with_residual else None
    given = (x, base, both[:, :, 1], residual)
    there = None if residual is None else residual.to(device)
    y = conv(x.to(device), base.to(device), both.to(device)[:, :, 1], there)
    assert y.dtype == dtype
    (FP32_OPERATION if dtype == torch.float32 else BF16_OPERATION).check(y.cpu(), expected(*given))


def test_no_block_sees_another(route: tuple[BlockConv, torch.device]) -> None:
    conv, device = route
    x = torch.randn(2, 3, 32)
    x[0] = float("nan")
    y = conv(x.to(device), torch.ones(2, 32).to(device), torch.zeros(2, 3, 2, 2).to(device))
    assert y[1].isfinite().all()


def test_who_asks_gets_the_reference() -> None:
    assert select(torch.device("cpu"), "auto") is block_conv
    assert select(torch.device("cuda"), "reference") is block_conv
