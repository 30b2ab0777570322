"""Codes of weights: complete tables, rounding at its ties, and what a matrix of codes stands for."""

from __future__ import annotations

import itertools

import pytest
import torch

from ninfer_core.ops.linear import DenseMatrix, Fp8Matrix, Nvfp4Matrix, dense, encode_fp8, encode_nvfp4, nvfp4_scale
from ninfer_core.ops.linear.formats import E2M1_VALUES, e2m1_values, to_e4m3


def e4m3_value(code: int) -> float:
    sign, exponent, fraction = -1 if code & 128 else 1, (code >> 3) & 15, code & 7
    if exponent == 15 and fraction == 7:
        return float("nan")
    return sign * (fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


def test_every_e4m3_code() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(1, 256)
    matrix = Fp8Matrix(codes.view(torch.float8_e4m3fn), torch.full((1, 1), 0.75))
    expected = torch.tensor([[0.75 * e4m3_value(code) for code in range(256)]])
    assert torch.equal(dense(matrix).nan_to_num(999), expected.nan_to_num(999))


def test_e4m3_rounds_to_the_nearest_and_ties_to_even() -> None:
    values = torch.tensor([e4m3_value(code) for code in range(127)], dtype=torch.float64)
    ties = (values[1:] + values[:-1]) / 2
    even = torch.tensor([code + code % 2 for code in range(126)], dtype=torch.uint8)
    assert torch.equal(to_e4m3(ties.float()).view(torch.uint8), even)
    above = torch.nextafter(ties.float(), torch.tensor(1e9))
    assert torch.equal(to_e4m3(above).view(torch.uint8), torch.arange(1, 127, dtype=torch.uint8))
    assert to_e4m3(torch.tensor([1e9, -1e9, 460.0, -0.0])).view(torch.uint8).tolist() == [126, 254, 126, 128]


def test_every_e2m1_code() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
    values = e2m1_values(codes, torch.float32).view(256, 2)
    for byte in range(256):
        for place, nibble in enumerate((byte & 15, byte >> 4)):
            assert values[byte, place] == E2M1_VALUES[nibble & 7] * (-1 if nibble & 8 else 1)


def test_e2m1_rounds_to_the_nearest_and_ties_to_even() -> None:
    ties = [(low + high) / 2 for low, high in itertools.pairwise(E2M1_VALUES)]
    # The largest value of the block is six: both scales are one, and the ties are what they are.
    row = torch.tensor([6.0, *ties, *(-tie for tie in ties), 0.0])
    matrix = encode_nvfp4(row.view(1, 16), torch.tensor(1.0))
    assert matrix.block_scale.float().tolist() == [[1.0]]
    expected = [E2M1_VALUES[code + code % 2] for code in range(7)]
    assert dense(matrix)[0].tolist() == [6.0, *expected, *(-value for value in expected), 0.0]


@pytest.mark.parametrize("shape", [(5, 32), (3, 4, 48)])
def test_fp8_is_within_half_a_step(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape) * torch.logspace(-3, 3, shape[-2]).unsqueeze(-1)
    matrix = encode_fp8(weight)
    assert matrix.scale.shape == (*shape[:-1], 1)
    decoded = dense(matrix)
    step = torch.maximum(weight.abs() / 16, matrix.scale * 2.0**-10)
    assert ((decoded - weight).abs() <= step * 1.0001).all()
    torch.testing.assert_close(decoded.abs().amax(-1), weight.abs().amax(-1))


@pytest.mark.parametrize("shape", [(5, 32), (3, 4, 48)])
def test_nvfp4_is_within_half_a_step(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape)
    matrix = encode_nvfp4(weight)
    assert matrix.codes.shape == (*shape[:-1], shape[-1] // 2)
    assert (matrix.outputs, matrix.inputs) == shape[-2:]
    blocks = weight.view(*shape[:-1], -1, 16)
    # Half of the largest step, 2 of 6, and what the block scale loses by its own rounding.
    bound = blocks.abs().amax(-1, keepdim=True) * (1 / 6 + 1 / 16)
    assert ((dense(matrix).view_as(blocks) - blocks).abs() <= bound).all()


def test_nvfp4_can_be_encoded_in_slices_of_rows() -> None:
    weight = torch.randn(12, 64)
    whole, scale = encode_nvfp4(weight), nvfp4_scale(weight.abs().amax())
    parts = [encode_nvfp4(weight[start : start + 4], scale) for start in (0, 4, 8)]
    for place, tensor in enumerate(whole.tensors):
        joined = torch.cat([part.tensors[place].view(torch.uint8) for part in parts])
        assert torch.equal(joined, tensor.contiguous().view(torch.uint8))


def test_zeros_are_zeros() -> None:
    weight = torch.zeros(2, 32)
    assert not dense(encode_fp8(weight)).any()
    assert not dense(encode_nvfp4(weight)).any()
    weight[0, :16] = 3
    torch.testing.assert_close(dense(encode_nvfp4(weight)), weight)


def test_inputs_of_nvfp4_come_in_blocks() -> None:
    with pytest.raises(ValueError, match="24 inputs"):
        encode_nvfp4(torch.ones(2, 24))


def test_block_scaled_groups_cover_a_ragged_end() -> None:
    codes = torch.ones(2, 300).to(torch.float8_e4m3fn)
    scale = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    decoded = dense(Fp8Matrix(codes, scale))
    assert decoded[0, [0, 127, 128, 255, 256, 299]].tolist() == [1, 1, 2, 2, 3, 3]
    assert decoded.shape == (2, 300)


def test_dense_matrices_are_themselves() -> None:
    weight = torch.randn(3, 4, 8)
    matrix = DenseMatrix(weight)
    assert dense(matrix) is weight
    assert (matrix.outputs, matrix.inputs) == (4, 8)
    assert isinstance(encode_nvfp4(torch.ones(1, 16)), Nvfp4Matrix)
