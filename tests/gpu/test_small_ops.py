"""Operations around the large ones at published shapes on a CUDA device, against float64 or, where they move whole
numbers, against the reference."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ninfer_core.ops import partial_rope, rms_norm, round_start
from ninfer_core.ops.round_start import RoundInputs, SlotState
from ninfer_core.ops.sample import SamplerTable
from ninfer_core.ops.swiglu.triton import swiglu
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
EPSILON, LOOKED_AT = 1e-6, 64
ROWS = (1, 8, 128, 8193)
LAST_POSITION = 262_143
SLOTS, VOCABULARY, BLOCKS = 8, 248_320, 4096


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(12)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("width", [5120, 2048, 256])
def test_norm(rows: int, width: int) -> None:
    x, weight = torch.randn(rows, width, device=CUDA).bfloat16(), (torch.randn(width, device=CUDA) / 4).bfloat16()
    made = rms_norm.select(CUDA, "auto")(x, weight, EPSILON)
    assert made.isfinite().all()
    wide = x[-LOOKED_AT:].double()
    exact = wide / (wide.square().mean(-1, keepdim=True) + EPSILON).sqrt() * (1 + weight.double())
    BF16_OPERATION.check(made[-LOOKED_AT:], exact)
    assert torch.equal(rms_norm.select(CUDA, "auto")(x[-1:], weight, EPSILON), made[-1:])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("width", [17408, 512, 1000])
def test_gated_activation(rows: int, width: int) -> None:
    x = (8 * torch.randn(rows, 2 * width, device=CUDA)).bfloat16()
    made = swiglu(x)
    assert made.isfinite().all()
    gate, up = x[-LOOKED_AT:].double().chunk(2, -1)
    BF16_OPERATION.check(made[-LOOKED_AT:], gate * torch.sigmoid(gate) * up)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (8, 1), (8, 16), (1, 8193)])
def test_angles(rows: int, columns: int) -> None:
    """Against float64 of the angle that float32 gives: as far as the products go, both round the same way."""
    pairs = 32
    frequency = 1e7 ** (-torch.arange(pairs, device=CUDA, dtype=torch.float32) / pairs)
    axis = torch.arange(pairs, device=CUDA) % 3
    positions = torch.randint(0, LAST_POSITION + 1, (3, rows, columns), device=CUDA)
    positions[:, -1, -1] = LAST_POSITION
    angle = positions.float()[axis].permute(1, 2, 0) * frequency
    cos, sin = partial_rope.select(CUDA, "auto")(positions, frequency, axis, 1.25)
    FP32_OPERATION.check(cos, 1.25 * angle.double().cos())
    FP32_OPERATION.check(sin, 1.25 * angle.double().sin())


def state(columns: int) -> SlotState:
    """Every fourth slot is greedy; a slot has offered any number of candidates."""
    numbers = torch.ones(SLOTS, 5, device=CUDA)
    numbers[::4, 0] = 0.0
    one_each = torch.ones(SLOTS, dtype=torch.int64, device=CUDA)
    return SlotState(
        candidates=torch.randint(0, VOCABULARY, (SLOTS, columns), device=CUDA),
        offered=torch.randint(1, columns + 1, (SLOTS,), device=CUDA),
        lengths=torch.randint(0, LAST_POSITION - columns, (SLOTS,), device=CUDA),
        block_tables=torch.randint(0, 1 << 30, (SLOTS, BLOCKS), dtype=torch.int32, device=CUDA),
        penalty_counts=torch.randint(0, 3, (SLOTS, VOCABULARY), dtype=torch.int32, device=CUDA),
        table=SamplerTable(numbers, one_each, one_each),
    )


def copied(before: SlotState) -> SlotState:
    names = (each.name for each in dataclasses.fields(before) if each.name != "table")
    return SlotState(**{name: getattr(before, name).clone() for name in names}, table=before.table)


@pytest.mark.parametrize("columns", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_beginning_of_a_round(rows: int, columns: int) -> None:
    made = state(columns)
    expected = copied(made)
    counted = torch.randint(0, columns + 1, (rows,), device=CUDA)
    slots = torch.randperm(SLOTS, device=CUDA)[:rows]
    inputs = torch.stack((slots, counted, counted * (torch.arange(rows, device=CUDA) % 3 > 0)))
    got = round_start.select(CUDA, "auto")(inputs, made, columns)
    told = round_start.select(CUDA, "reference")(inputs, expected, columns)
    for each in dataclasses.fields(RoundInputs):
        assert torch.equal(getattr(got, each.name), getattr(told, each.name)), each.name
    assert torch.equal(made.lengths, expected.lengths)
    assert torch.equal(made.penalty_counts, expected.penalty_counts)
