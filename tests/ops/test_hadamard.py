"""The Hadamard transform against its definition, and the one in registers against the one in torch."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.hadamard import hadamard
from ninfer_core.testing.tolerances import FP32_OPERATION


def by_definition(x: torch.Tensor) -> torch.Tensor:
    width = x.shape[-1]
    signs = [[(-1.0) ** (i & j).bit_count() for j in range(width)] for i in range(width)]
    return x.double() @ torch.tensor(signs, dtype=torch.float64) * width**-0.5


@pytest.mark.parametrize("width", [1, 2, 8, 128, 256])
def test_it_is_the_definition(width: int) -> None:
    x = torch.randn(3, width)
    FP32_OPERATION.check(hadamard(x), by_definition(x))


def test_it_is_its_own_inverse_and_keeps_products() -> None:
    x, y = torch.randn(2, 5, 256)
    FP32_OPERATION.check(hadamard(hadamard(x)), x)
    FP32_OPERATION.check((hadamard(x) * hadamard(y)).sum(-1) / 16, (x * y).sum(-1) / 16)


@pytest.mark.parametrize("width", [32, 128])
def test_the_transform_in_registers_gives_the_same_bits(kernel_device: torch.device, width: int) -> None:
    from ninfer_core.testing.kv_kernels import transform_rows

    x = torch.randn(4, width, device=kernel_device)
    expected = hadamard(x)
    transform_rows[(1,)](x, TOKENS=4, HEAD_DIM=width, STAGES=width.bit_length() - 1, FACTOR=width**-0.5)
    assert torch.equal(x, expected)
