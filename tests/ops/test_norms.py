"""Norms and activations against their formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import torch

from ninfer_core.ops import activation
from ninfer_core.ops.gated_rms_norm import GateActivation, gated_rms_norm
from ninfer_core.ops.rms_norm import rms_norm
from ninfer_core.ops.swiglu import swiglu
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION, Tolerance

EPSILON = 1e-6
TOLERANCES = {torch.float32: FP32_OPERATION, torch.bfloat16: BF16_OPERATION}
Activation = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture
def tolerance(dtype: torch.dtype) -> Tolerance:
    return TOLERANCES[dtype]


@pytest.mark.parametrize("width", [1, 31, 256])
def test_zero_centred_norm(width: int, dtype: torch.dtype, tolerance: Tolerance) -> None:
    x, weight = (3 * torch.randn(2, 5, width)).to(dtype), torch.randn(width)
    wide = x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + weight.double())
    actual = rms_norm(x, weight, EPSILON)
    assert actual.dtype == dtype
    tolerance.check(actual, expected)


def test_the_weight_is_added_to_one_before_rounding() -> None:
    x = torch.ones(1, 4).bfloat16()
    weight = torch.full((4,), 2.0**-9)  # 1 + w is between two bfloat16 values
    assert torch.equal(rms_norm(x * 3, weight, 0.0), torch.full((1, 4), 1 + 2.0**-9).bfloat16())


def test_zeros_stay_zeros() -> None:
    assert not rms_norm(torch.zeros(2, 8), torch.ones(8), EPSILON).any()


@pytest.mark.parametrize("gate_activation", get_args(GateActivation))
def test_gated_norm(gate_activation: GateActivation, dtype: torch.dtype, tolerance: Tolerance) -> None:
    x, gate, weight = 100 * torch.randn(2, 3, 4, 16), torch.randn(2, 3, 4, 16).to(dtype), torch.randn(16)
    wide, opening = x.double(), 1 / (1 + (-gate.double()).exp())
    opening = opening * gate.double() if gate_activation == "silu" else opening
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt() * weight.double() * opening
    actual = gated_rms_norm(x, gate, weight, EPSILON, gate_activation)
    assert actual.dtype == dtype
    tolerance.check(actual, expected)


def test_swiglu_takes_gate_rows_first(dtype: torch.dtype, tolerance: Tolerance) -> None:
    x = torch.randn(2, 3, 20).to(dtype)
    gate, up = x[..., :10].double(), x[..., 10:].double()
    tolerance.check(swiglu(x), gate / (1 + (-gate).exp()) * up)


FORMULAS: dict[str, Activation] = {
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "silu": lambda x: x / (1 + (-x).exp()),
    "softplus": lambda x: (1 + x.exp()).log(),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name: str) -> None:
    x = torch.cat((torch.randn(100) * 5, torch.tensor([0.0, -0.0, 20.0, -20.0, 88.0, -88.0])))
    FP32_OPERATION.check(getattr(activation, name)(x), FORMULAS[name](x.double()))


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_far_out_are_their_limits(name: str) -> None:
    low, high = getattr(activation, name)(torch.tensor([-1000.0, 1000.0])).tolist()
    assert low == 0.0
    assert high == (1.0 if name == "sigmoid" else 1000.0)


@pytest.mark.parametrize("name", FORMULAS)
def test_an_element_does_not_depend_on_its_place(name: str) -> None:
    function: Activation = getattr(activation, name)
    x = torch.randn(70_001) * 3  # enough for torch to share it between threads
    whole = function(x)
    for size in (1, 3, 7, 8, 9, 31, 64, 65, 1000, 40_003):
        for start in (0, 1, 5):
            assert torch.equal(function(x[start : start + size]), whole[start : start + size])
