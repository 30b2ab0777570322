"""Causal convolution against its sum in float64, and what its ring holds."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops import causal_conv
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

CHANNELS, WIDTH, SLOTS, COLUMNS = 10, 4, 5, 3
KEPT, RING = WIDTH - 1, WIDTH - 1 + 2 * COLUMNS
ROWS = torch.tensor([3, 1])
NOBODY = [0, 2, 4]


def _convolved(history: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """history [width − 1, channels], x [columns, channels] -> [columns, channels], one sum at a time."""
    line = torch.cat((history, x)).double()
    out = torch.zeros(x.shape[0], CHANNELS, dtype=torch.float64)
    for column in range(x.shape[0]):
        for channel in range(CHANNELS):
            total = sum(line[column + tap, channel] * weight[channel, tap].double() for tap in range(WIDTH))
            out[column, channel] = total / (1 + torch.exp(-torch.as_tensor(total)))
    return out


def _ring(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(SLOTS, RING, CHANNELS).to(dtype)


def _at(ring: torch.Tensor, slot: int, start: int, stop: int) -> torch.Tensor:
    """The columns at positions [start, stop), zeros before the beginning."""
    columns = [ring[slot, p % RING] if p >= 0 else torch.zeros(CHANNELS, dtype=ring.dtype) for p in range(start, stop)]
    return torch.stack(columns)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 65])
@pytest.mark.parametrize("lengths", [(0, 1), (2, 3), (8, 17), (1000, 4)])
def test_prefill_convolves_and_keeps_the_last_columns(columns: int, lengths: tuple[int, int]) -> None:
    ring = _ring()
    before, x, weight = ring.clone(), torch.randn(2, columns, CHANNELS), torch.randn(CHANNELS, WIDTH)
    actual = causal_conv.prefill(x, weight, ring, ROWS, torch.tensor(lengths))
    for row, (slot, length) in enumerate(zip(ROWS.tolist(), lengths, strict=True)):
        history = _at(before, slot, length - KEPT, length)
        FP32_OPERATION.check(actual[row], _convolved(history, x[row], weight))
        end = length + columns
        assert torch.equal(_at(ring, slot, end - KEPT, end), torch.cat((history, x[row]))[-KEPT:])
        untouched = [p % RING for p in range(end, end + RING - min(KEPT, columns))]
        assert torch.equal(ring[slot, untouched], before[slot, untouched])
    assert torch.equal(ring[NOBODY], before[NOBODY])


def test_prefill_in_pieces_is_prefill() -> None:
    ring = torch.full((SLOTS, RING, CHANNELS), torch.nan)
    other, x, weight = ring.clone(), torch.randn(2, 9, CHANNELS), torch.randn(CHANNELS, WIDTH)
    whole = causal_conv.prefill(x, weight, ring, ROWS, torch.zeros(2).long())
    starts, pieces = 0, []
    for part in torch.split(x, [1, 2, 0, 6], dim=1):
        pieces.append(causal_conv.prefill(part, weight, other, ROWS, torch.full((2,), starts)))
        starts += part.shape[1]
    assert torch.equal(torch.cat(pieces, 1), whole)
    for slot in ROWS.tolist():
        assert torch.equal(_at(other, slot, 6, 9), _at(ring, slot, 6, 9))


def test_rounds_once_in_bfloat16() -> None:
    ring = _ring(torch.bfloat16)
    x, weight = torch.randn(2, 6, CHANNELS).bfloat16(), torch.randn(CHANNELS, WIDTH)
    history = _at(ring, 3, 4, 7)
    actual = causal_conv.prefill(x, weight, ring, ROWS, torch.tensor([7, 7]))
    assert actual.dtype == torch.bfloat16
    BF16_OPERATION.check(actual[0], _convolved(history, x[0], weight))


@pytest.mark.parametrize("lengths", [(0, 2), (3, 5), (7, 40)])
def test_decode_reads_what_came_before_and_leaves_every_column(lengths: tuple[int, int]) -> None:
    ring = _ring()
    before, x, weight = ring.clone(), torch.randn(2, COLUMNS, CHANNELS), torch.randn(CHANNELS, WIDTH)
    actual = causal_conv.decode(x, weight, ring, ROWS, torch.tensor(lengths))
    for row, (slot, length) in enumerate(zip(ROWS.tolist(), lengths, strict=True)):
        history = _at(before, slot, length - KEPT, length)
        FP32_OPERATION.check(actual[row], _convolved(history, x[row], weight))
        assert torch.equal(_at(ring, slot, length - KEPT, length + COLUMNS), torch.cat((history, x[row])))
    assert torch.equal(ring[NOBODY], before[NOBODY])


@pytest.mark.parametrize("accepted", [(0, 0), (1, 3), (2, 1), (3, 0)])
def test_a_round_goes_on_behind_any_column_of_the_last(accepted: tuple[int, int]) -> None:
    ring, weight, lengths = _ring(), torch.randn(CHANNELS, WIDTH), torch.tensor([5, 11])
    histories = [_at(ring, slot, length - KEPT, length) for slot, length in zip((3, 1), (5, 11), strict=True)]
    first, second = torch.randn(2, COLUMNS, CHANNELS), torch.randn(2, COLUMNS, CHANNELS)
    causal_conv.decode(first, weight, ring, ROWS, lengths)
    actual = causal_conv.decode(second, weight, ring, ROWS, lengths + torch.tensor(accepted))
    for row, taken in enumerate(accepted):
        line = torch.cat((histories[row], first[row, :taken]))[-KEPT:]
        FP32_OPERATION.check(actual[row], _convolved(line, second[row], weight))


def test_fewer_columns_than_the_ring_is_made_for() -> None:
    ring, weight = _ring(), torch.randn(CHANNELS, WIDTH)
    x, lengths = torch.randn(2, 1, CHANNELS), torch.tensor([9, 10])
    history = _at(ring, 3, 6, 9)
    causal_conv.decode(x, weight, ring, ROWS, lengths)
    following = causal_conv.decode(x, weight, ring, ROWS, lengths + 1)
    FP32_OPERATION.check(following[0], _convolved(torch.cat((history, x[0]))[-KEPT:], x[0], weight))
