"""Kernels over whole rows against float64: the norm, the gated activation, activations in fp8 codes."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.linear import Norm
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

EPSILON = 1e-6


def rows_of(device: torch.device, shape: tuple[int, ...]) -> torch.Tensor:
    x = 3 * torch.randn(shape)
    x.view(-1, shape[-1])[0] = 0
    return x.to(device)


@pytest.mark.parametrize("width", [1, 48, 300])
def test_the_norm(kernel_device: torch.device, width: int) -> None:
    from ninfer_core.ops.rms_norm.triton import rms_norm

    x, weight = rows_of(kernel_device, (2, 3, width)), torch.randn(width, device=kernel_device)
    wide = x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + weight.double())
    FP32_OPERATION.check(rms_norm(x, weight, EPSILON), expected)
    assert rms_norm(x[:0], weight, EPSILON).shape == (0, 3, width)
    if kernel_device.type == "cuda":
        BF16_OPERATION.check(rms_norm(x.bfloat16(), weight, EPSILON), expected)


@pytest.mark.parametrize("width", [1, 48, 1030])
def test_the_gated_activation(kernel_device: torch.device, width: int) -> None:
    from ninfer_core.ops.swiglu.triton import swiglu

    x = rows_of(kernel_device, (2, 3, 2 * width))
    x[1, 0, 0], x[1, 1, 0] = -200.0, 200.0
    gate, up = x.double().chunk(2, -1)
    FP32_OPERATION.check(swiglu(x), gate / (1 + (-gate).exp()) * up)
    assert swiglu(x[:0]).shape == (0, 3, width)


@pytest.mark.parametrize("kind", ["plain", "norm", "gated"])
@pytest.mark.parametrize("width", [48, 300])
def test_activations_in_codes(kernel_device: torch.device, kind: str, width: int) -> None:
    from ninfer_core.ops.linear.many import quantise

    gated = kind == "gated"
    x = rows_of(kernel_device, (5, 2 * width if gated else width))
    norm = Norm(torch.randn(width, device=kernel_device), EPSILON) if kind == "norm" else None
    expected = x.double()
    if norm is not None:
        expected = expected / (expected.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + norm.weight.double())
    if gated:
        gate, up = expected.chunk(2, -1)
        expected = gate / (1 + (-gate).exp()) * up
    codes, scale = quantise(x, norm, gated=gated)
    assert (codes.shape, scale.shape) == ((5, width), (5, 1))
    assert scale[0] == 1
    largest = expected[1:].abs().amax(-1, keepdim=True)
    FP32_OPERATION.check(scale[1:] * 448, largest)
    step = torch.maximum(expected.abs() / 16, scale.double() * 2.0**-10) * 1.001
    assert ((codes.double() * scale.double() - expected).abs() <= step).all()
