"""Causal convolution against its sum in float64, and what its state holds."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops import causal_conv
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

CHANNELS, WIDTH, SLOTS, COLUMNS = 10, 4, 5, 3
ROWS = torch.tensor([3, 1])


def _convolved(history: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """history [width − 1, channels], x [columns, channels] -> [columns, channels], one sum at a time."""
    line = torch.cat((history, x)).double()
    out = torch.zeros(x.shape[0], CHANNELS, dtype=torch.float64)
    for column in range(x.shape[0]):
        for channel in range(CHANNELS):
            total = sum(line[column + tap, channel] * weight[channel, tap].double() for tap in range(WIDTH))
            out[column, channel] = total / (1 + torch.exp(-torch.as_tensor(total)))
    return out


def _pools() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(SLOTS, WIDTH - 1, CHANNELS), torch.full((SLOTS, COLUMNS, CHANNELS), torch.nan)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 65])
def test_prefill_convolves_and_commits(columns: int) -> None:
    state, _ = _pools()
    before, x, weight = state.clone(), torch.randn(2, columns, CHANNELS), torch.randn(CHANNELS, WIDTH)
    actual = causal_conv.prefill(x, weight, state, ROWS)
    for row, slot in enumerate(ROWS.tolist()):
        FP32_OPERATION.check(actual[row], _convolved(before[slot], x[row], weight))
        assert torch.equal(state[slot], torch.cat((before[slot], x[row]))[-(WIDTH - 1) :])
    assert torch.equal(state[[0, 2, 4]], before[[0, 2, 4]])


def test_prefill_in_pieces_is_prefill() -> None:
    state, _ = _pools()
    other, x, weight = state.clone(), torch.randn(2, 9, CHANNELS), torch.randn(CHANNELS, WIDTH)
    whole = causal_conv.prefill(x, weight, state, ROWS)
    pieces = [causal_conv.prefill(part, weight, other, ROWS) for part in torch.split(x, [1, 2, 0, 6], dim=1)]
    assert torch.equal(torch.cat(pieces, 1), whole)
    assert torch.equal(other, state)


def test_rounds_once_in_bfloat16() -> None:
    state = torch.randn(SLOTS, WIDTH - 1, CHANNELS).bfloat16()
    before, x, weight = state.clone(), torch.randn(2, 6, CHANNELS).bfloat16(), torch.randn(CHANNELS, WIDTH)
    actual = causal_conv.prefill(x, weight, state, ROWS)
    assert actual.dtype == torch.bfloat16
    BF16_OPERATION.check(actual[0], _convolved(before[3], x[0], weight))


def test_decode_reads_the_state_and_leaves_it() -> None:
    state, records = _pools()
    before, x, weight = state.clone(), torch.randn(2, COLUMNS, CHANNELS), torch.randn(CHANNELS, WIDTH)
    actual = causal_conv.decode(x, weight, state, records, ROWS, torch.zeros(2).long())
    for row, slot in enumerate(ROWS.tolist()):
        FP32_OPERATION.check(actual[row], _convolved(before[slot], x[row], weight))
        assert torch.equal(records[slot], x[row])
    assert torch.equal(state, before)
    assert records[[0, 2, 4]].isnan().all()


@pytest.mark.parametrize("accepted", [(0, 0), (1, 3), (2, 1), (3, 0)])
def test_exactly_the_accepted_columns_are_folded(accepted: tuple[int, int]) -> None:
    state, records = _pools()
    before, x, weight = state.clone(), torch.randn(2, COLUMNS, CHANNELS), torch.randn(CHANNELS, WIDTH)
    causal_conv.decode(x, weight, state, records, ROWS, torch.zeros(2).long())
    causal_conv.fold(state.unsqueeze(0), records.unsqueeze(0), ROWS, torch.tensor(accepted))
    for row, slot in enumerate(ROWS.tolist()):
        committed = torch.cat((before[slot], x[row, : accepted[row]]))
        assert torch.equal(state[slot], committed[-(WIDTH - 1) :])
    assert torch.equal(state[[0, 2, 4]], before[[0, 2, 4]])


def test_fewer_columns_than_the_records_hold() -> None:
    state, records = _pools()
    before, x, weight = state.clone(), torch.randn(2, 1, CHANNELS), torch.randn(CHANNELS, WIDTH)
    causal_conv.decode(x, weight, state, records, ROWS, torch.zeros(2).long())
    following = causal_conv.decode(x, weight, state, records, ROWS, torch.ones(2).long())
    FP32_OPERATION.check(following[0], _convolved(torch.cat((before[3], x[0]))[-(WIDTH - 1) :], x[0], weight))
