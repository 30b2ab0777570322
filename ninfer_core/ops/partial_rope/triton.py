"""Cosines and sines of a unit of work in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

COLUMNS = 8
"""Columns of one program: a decode round fills one or a few, a prefill many."""


def rope_angles(
    positions: torch.Tensor, inverse_frequency: torch.Tensor, axis: torch.Tensor, attention_factor: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """positions [3, rows, columns] -> cos and sin, each float32 [rows, columns, pairs]."""
    _, rows, columns = positions.shape
    pairs = inverse_frequency.shape[0]
    angles = torch.empty(2, rows, columns, pairs, dtype=torch.float32, device=positions.device)
    angles_kernel[(triton.cdiv(rows * columns, COLUMNS),)](
        positions,
        *positions.stride(),
        inverse_frequency,
        axis,
        angles,
        rows * columns,
        columns,
        attention_factor,
        PAIRS=pairs,
        MOST_PAIRS=triton.next_power_of_2(pairs),
        COLUMNS=COLUMNS,
        num_warps=4,
    )
    return angles[0], angles[1]


@triton.jit(do_not_specialize=["axis_stride", "row_stride", "column_stride", "tokens", "columns", "attention_factor"])
def angles_kernel(
    positions,
    axis_stride,
    row_stride,
    column_stride,
    inverse_frequency,
    axis,
    angles,
    tokens,
    columns,
    attention_factor,
    PAIRS: tl.constexpr,
    MOST_PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """angles [2, tokens, pairs] float32: cosines, then sines."""
    token = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    pair = tl.arange(0, MOST_PAIRS)
    chosen = tl.load(axis + pair, mask=pair < PAIRS, other=0)
    frequency = tl.load(inverse_frequency + pair, mask=pair < PAIRS, other=0.0)
    there = (token < tokens)[:, None] & (pair < PAIRS)[None, :]
    place = (token // columns) * row_stride + (token % columns) * column_stride
    position = tl.load(positions + place[:, None] + chosen[None, :] * axis_stride, mask=there, other=0)
    angle = position.to(tl.float32) * frequency[None, :]
    out = angles + token[:, None].to(tl.int64) * PAIRS + pair[None, :]
    tl.store(out, tl.cos(angle) * attention_factor, mask=there)
    tl.store(out + tokens.to(tl.int64) * PAIRS, tl.sin(angle) * attention_factor, mask=there)
