"""Linear map: the product, and the padding class that makes a row's numbers its own."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.linear import DECODE_ROWS, linear
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

SHAPES = ((64, 204), (160, 64), (256, 768), (352, 1), (320, 97))


@pytest.mark.parametrize("row_class", [0, 8, 24])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9])
def test_is_the_product(rows: int, row_class: int) -> None:
    x, weight = torch.randn(rows, 2, 48), torch.randn(20, 48) / 7
    expected = torch.einsum("rci,oi->rco", x.double(), weight.double())
    FP32_OPERATION.check(linear(x, weight, row_class), expected)


def test_rounds_once_in_bfloat16() -> None:
    x, weight = torch.randn(3, 256).bfloat16(), (torch.randn(40, 256) / 16).bfloat16()
    actual = linear(x, weight, DECODE_ROWS)
    assert actual.dtype == torch.bfloat16
    BF16_OPERATION.check(actual, x.double() @ weight.double().T)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("columns", [1, 3])
def test_a_row_does_not_depend_on_the_others(shape: tuple[int, int], columns: int) -> None:
    weight = torch.randn(shape[1], shape[0])
    row = torch.randn(1, columns, shape[0])
    row_class = DECODE_ROWS * columns
    expected = linear(row, weight, row_class)
    for rows in range(1, DECODE_ROWS + 1):
        for place in range(rows):
            batch = torch.randn(rows, columns, shape[0])
            batch[place] = row
            assert torch.equal(linear(batch, weight, row_class)[place], expected[0])
