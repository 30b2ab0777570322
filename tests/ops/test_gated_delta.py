"""The gated delta rule, chunked and recurrent, against the recurrence in float64, element by element."""

from __future__ import annotations

import math

import pytest
import torch

from ninfer_core.ops import gated_delta
from ninfer_core.ops.gated_delta import DeltaColumns, DeltaRecords
from ninfer_core.testing.tolerances import FP32_DELTA_RULE

KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, SLOTS, COLUMNS = 2, 6, 16, 8, 4, 3
ROWS = torch.tensor([2, 0])
NOBODY = [1, 3]
LENGTHS, NONE = torch.tensor([5, 0]), torch.tensor([0, 0])
"""Positions of the first new columns: one row wraps around its ring, the other begins; and nothing accepted."""


def _columns(count: int, rows: int = 2) -> DeltaColumns:
    return DeltaColumns(
        query=torch.randn(rows, count, KEY_HEADS, KEY_DIM),
        key=torch.randn(rows, count, KEY_HEADS, KEY_DIM),
        value=torch.randn(rows, count, VALUE_HEADS, VALUE_DIM),
        a=torch.randn(rows, count, VALUE_HEADS),
        b=torch.randn(rows, count, VALUE_HEADS),
        a_log=torch.randn(VALUE_HEADS),
        dt_bias=torch.randn(VALUE_HEADS),
    )


def _part(columns: DeltaColumns, start: int, stop: int) -> DeltaColumns:
    parts = {name: getattr(columns, name)[:, start:stop] for name in ("query", "key", "value", "a", "b")}
    return DeltaColumns(**parts, a_log=columns.a_log, dt_bias=columns.dt_bias)


def _oracle(columns: DeltaColumns, row: int, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence of one row as it is written; -> out [columns, value_heads, value_dim], memory after."""
    memory = memory.double().clone()
    count = columns.value.shape[1]
    out = torch.zeros(count, VALUE_HEADS, VALUE_DIM, dtype=torch.float64)
    for t in range(count):
        for head in range(VALUE_HEADS):
            group = head // (VALUE_HEADS // KEY_HEADS)
            q, k = columns.query[row, t, group].double(), columns.key[row, t, group].double()
            q = q / math.sqrt(float(q @ q) + 1e-6) / math.sqrt(KEY_DIM)
            k = k / math.sqrt(float(k @ k) + 1e-6)
            beta = 1 / (1 + math.exp(-float(columns.b[row, t, head])))
            softplus = math.log1p(math.exp(float(columns.a[row, t, head].double() + columns.dt_bias[head].double())))
            memory[head] *= math.exp(-math.exp(float(columns.a_log[head])) * softplus)
            update = beta * (columns.value[row, t, head].double() - memory[head].T @ k)
            memory[head] += torch.outer(k, update)
            out[t, head] = memory[head].T @ q
    return out, memory


def _state() -> torch.Tensor:
    return torch.randn(SLOTS, VALUE_HEADS, KEY_DIM, VALUE_DIM)


def _records() -> DeltaRecords:
    shapes = ((KEY_HEADS, KEY_DIM), (VALUE_HEADS, VALUE_DIM), (VALUE_HEADS,))
    return DeltaRecords(*(torch.full((SLOTS, 2 * COLUMNS, *shape), torch.nan) for shape in shapes))


def _layer_axis(records: DeltaRecords) -> DeltaRecords:
    return DeltaRecords(records.key.unsqueeze(0), records.update.unsqueeze(0), records.decay.unsqueeze(0))


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 129])
def test_prefill_is_the_recurrence(count: int) -> None:
    columns, state = _columns(count), _state()
    before = state.clone()
    out = gated_delta.prefill(columns, state, ROWS)
    assert out.dtype == torch.float32
    for row, slot in enumerate(ROWS.tolist()):
        expected, memory = _oracle(columns, row, before[slot])
        FP32_DELTA_RULE.check(out[row], expected)
        FP32_DELTA_RULE.check(state[slot], memory)
    assert torch.equal(state[NOBODY], before[NOBODY])


@pytest.mark.parametrize("split", [1, 33, 63, 64, 65, 69])
def test_prefill_continues_at_any_column(split: int) -> None:
    columns, state = _columns(70), _state()
    before = state.clone()
    parts = [gated_delta.prefill(_part(columns, *span), state, ROWS) for span in ((0, split), (split, 70))]
    expected, memory = _oracle(columns, 1, before[0])
    FP32_DELTA_RULE.check(torch.cat(parts, 1)[1], expected)
    FP32_DELTA_RULE.check(state[0], memory)


def test_strong_decay_neither_overflows_nor_forgets_the_present() -> None:
    columns, state = _columns(130), _state()
    columns.a_log.fill_(4.0)  # e^g is below 1e-20 at most columns
    before = state.clone()
    expected, memory = _oracle(columns, 0, before[2])
    FP32_DELTA_RULE.check(gated_delta.prefill(columns, state, ROWS)[0], expected)
    FP32_DELTA_RULE.check(state[2], memory)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_decode_is_the_recurrence_and_commits_nothing(count: int) -> None:
    columns, state, records = _columns(count), _state(), _records()
    before = state.clone()
    out = gated_delta.decode(columns, state, records, ROWS, LENGTHS, NONE)
    for row, (slot, length) in enumerate(zip(ROWS.tolist(), LENGTHS.tolist(), strict=True)):
        FP32_DELTA_RULE.check(out[row], _oracle(columns, row, before[slot])[0])
        written = {position % (2 * COLUMNS) for position in range(length, length + count)}
        for place in range(2 * COLUMNS):
            for record in (records.key, records.update, records.decay):
                assert record[slot, place].isfinite().all() if place in written else record[slot, place].isnan().all()
    assert torch.equal(state, before)
    assert records.key[NOBODY].isnan().all()


@pytest.mark.parametrize("accepted", [(0, 3), (1, 2), (3, 0), (2, 2)])
def test_exactly_the_accepted_columns_are_folded(accepted: tuple[int, int]) -> None:
    columns, state, records = _columns(COLUMNS), _state(), _records()
    before = state.clone()
    gated_delta.decode(columns, state, records, ROWS, LENGTHS, NONE)
    taken = torch.tensor(accepted)
    gated_delta.fold(state.unsqueeze(0), _layer_axis(records), ROWS, LENGTHS + taken, taken)
    for row, slot in enumerate(ROWS.tolist()):
        FP32_DELTA_RULE.check(state[slot], _oracle(_part(columns, 0, accepted[row]), row, before[slot])[1])
        if accepted[row] == 0:
            assert torch.equal(state[slot], before[slot])
    assert torch.equal(state[NOBODY], before[NOBODY])


def test_the_next_round_folds_to_the_same_bits() -> None:
    columns, state, records = _columns(COLUMNS), _state(), _records()
    gated_delta.decode(columns, state, records, ROWS, LENGTHS, NONE)
    folded, taken = state.clone(), torch.tensor([2, 1])
    gated_delta.fold(folded.unsqueeze(0), _layer_axis(records), ROWS, LENGTHS + taken, taken)
    gated_delta.decode(_columns(COLUMNS), state, records, ROWS, LENGTHS + taken, taken)
    assert torch.equal(state, folded)


def test_a_round_after_a_fold_continues_the_round_before_bit_for_bit() -> None:
    columns, state, records = _columns(COLUMNS), _state(), _records()
    stepwise = state.clone()
    together = gated_delta.decode(columns, state, records, ROWS, LENGTHS, NONE)
    kept = _records()
    for column in range(COLUMNS):
        accepted = torch.full((2,), int(column > 0))
        out = gated_delta.decode(_part(columns, column, column + 1), stepwise, kept, ROWS, LENGTHS + column, accepted)
        assert torch.equal(out[:, 0], together[:, column])
