"""Rotary positions against complex rotation in float64."""

from __future__ import annotations

import torch

from ninfer_core.ops.partial_rope import partial_rope, rope_angles
from ninfer_core.testing.tolerances import FP32_OPERATION, Tolerance

PAIRS = 8
FREQUENCY = torch.tensor([100.0 ** (-j / PAIRS) for j in range(PAIRS)])
AXIS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
FAR_ANGLES = Tolerance(absolute=0.05, relative=0.0)  # an angle of 262,143 has 2^-6 between its float32 neighbours


def _rotated(x: torch.Tensor, positions: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """Each pair (x[j], x[j + PAIRS]) as a complex number, turned by the position of the pair's axis."""
    out = x.double().clone()
    for row in range(x.shape[0]):
        for column in range(x.shape[1]):
            for pair in range(PAIRS):
                angle = positions[AXIS[pair], row, column].double() * FREQUENCY[pair].double()
                turned = torch.complex(out[row, column, :, pair], out[row, column, :, pair + PAIRS])
                turned = turned * torch.polar(torch.tensor(factor).double(), angle)
                out[row, column, :, pair], out[row, column, :, pair + PAIRS] = turned.real, turned.imag
    return out


def test_pairs_turn_by_the_position_of_their_axis() -> None:
    x, positions = torch.randn(2, 5, 3, 24), torch.randint(0, 60, (3, 2, 5))
    cos, sin = rope_angles(positions, FREQUENCY, AXIS)
    actual = partial_rope(x, cos, sin)
    FP32_OPERATION.check(actual, _rotated(x, positions))
    assert torch.equal(actual[..., 2 * PAIRS :], x[..., 2 * PAIRS :])


def test_attention_factor_scales_what_is_rotated() -> None:
    x, positions = torch.randn(1, 3, 2, 20), torch.randint(0, 60, (3, 1, 3))
    cos, sin = rope_angles(positions, FREQUENCY, AXIS, attention_factor=1.25)
    FP32_OPERATION.check(partial_rope(x, cos, sin), _rotated(x, positions, factor=1.25))


def test_position_zero_changes_nothing() -> None:
    x = torch.randn(1, 1, 2, 16).bfloat16()
    assert torch.equal(partial_rope(x, *rope_angles(torch.zeros(3, 1, 1).long(), FREQUENCY, AXIS)), x)


def test_the_last_position_of_a_long_context_is_still_an_angle() -> None:
    x, positions = torch.randn(1, 1, 1, 16), torch.full((3, 1, 1), 262_143)
    FAR_ANGLES.check(partial_rope(x, *rope_angles(positions, FREQUENCY, AXIS)), _rotated(x, positions))


def test_no_columns() -> None:
    cos, sin = rope_angles(torch.zeros(3, 2, 0).long(), FREQUENCY, AXIS)
    assert partial_rope(torch.zeros(2, 0, 3, 16), cos, sin).shape == (2, 0, 3, 16)


def test_the_kernel_finds_the_same_angles(kernel_device: torch.device) -> None:
    from ninfer_core.ops.partial_rope import triton as kernels

    frequency = torch.tensor([100.0 ** (-j / 12) for j in range(12)])
    axis = torch.tensor([0, 1, 2] * 4)
    for positions in (
        torch.randint(0, 262_144, (3, 3, 7)),
        torch.randint(0, 100, (3, 1)).unsqueeze(-1).expand(3, 1, 1),
        torch.arange(5, 14).view(1, 9).expand(3, 1, 9),
    ):
        there = [each.to(kernel_device) for each in (positions, frequency, axis)]
        for got, expected in zip(
            kernels.rope_angles(*there, 1.25), rope_angles(positions, frequency, axis, 1.25), strict=True
        ):
            FP32_OPERATION.check(got.cpu(), expected)
