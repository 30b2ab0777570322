"""Rounds of the mixer at the shape of a 27B model on a CUDA device, of every width, against the reference."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ninfer_core.ops.delta_mixer import MixerColumns, MixerState, MixerWeights, ReferenceMixer, select
from ninfer_core.testing.tolerances import BF16_DELTA_RULE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
KEY_HEADS, VALUE_HEADS, DIM, ROWS, LAYERS, LAYER = 16, 48, 128, 8, 2, 1
CHANNELS = 2 * KEY_HEADS * DIM + VALUE_HEADS * DIM


def weights() -> MixerWeights:
    return MixerWeights(
        conv=torch.randn(CHANNELS, 4, device=CUDA) * 0.5,
        a_log=torch.randn(VALUE_HEADS, device=CUDA) * 0.5,
        dt_bias=torch.randn(VALUE_HEADS, device=CUDA),
        gate_norm=1 + 0.3 * torch.randn(DIM, device=CUDA),
        epsilon=1e-6,
        activation="silu",
        key_heads=KEY_HEADS,
        key_dim=DIM,
    )


def empty_state(columns: int) -> MixerState:
    ring = 2 * columns
    pool = (LAYERS, ROWS)
    return MixerState(
        memory=torch.zeros(*pool, VALUE_HEADS, DIM, DIM, device=CUDA),
        column=torch.zeros(*pool, 3 + ring, CHANNELS, device=CUDA, dtype=torch.bfloat16),
        key=torch.zeros(*pool, ring, KEY_HEADS, DIM, device=CUDA),
        update=torch.zeros(*pool, ring, VALUE_HEADS, DIM, device=CUDA),
        decay=torch.zeros(*pool, ring, VALUE_HEADS, device=CUDA),
    )


@pytest.mark.parametrize("columns", [1, 2, 4, 8, 16])
def test_rounds_of_every_width(columns: int) -> None:
    """Four rounds, of which every row takes another number of columns each time, none and all among them."""
    torch.manual_seed(columns)
    made, layer = empty_state(columns), weights()
    told = MixerState(*(getattr(made, field.name).clone() for field in dataclasses.fields(made)))
    slots, lengths = torch.randperm(ROWS, device=CUDA), torch.zeros(ROWS, dtype=torch.int64, device=CUDA)
    accepted = torch.zeros_like(lengths)
    mixer, reference = select(CUDA, "auto"), ReferenceMixer()
    for turn in range(4):
        inputs = [
            torch.randn(ROWS, columns, width, device=CUDA).bfloat16()
            for width in (CHANNELS, VALUE_HEADS * DIM, VALUE_HEADS, VALUE_HEADS)
        ]
        lengths = lengths + accepted
        given = MixerColumns(*inputs)
        out = mixer.decode(given, layer, made, LAYER, slots, lengths, accepted)
        BF16_DELTA_RULE.check(out, reference.decode(given, layer, told, LAYER, slots, lengths, accepted))
        accepted = (torch.arange(ROWS, device=CUDA) + turn) % (columns + 1)
    BF16_DELTA_RULE.check(made.memory, told.memory)
