"""Sums of squares of rows, in an order that neither the layout of a tile nor the number of warps decides.

Who writes a row leaves the sum of every few values of it: halves are added to halves. Who reads the row adds these up
in LANES sums, one after the other, and halves of these to halves. So a row's sum has the same bits in every launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.workspace.linear import SQUARE_LANES

LANES: tl.constexpr = tl.constexpr(SQUARE_LANES)


@triton.jit
def halved_sum(values, SUMS: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """[SUMS · COUNT, ROWS] -> [SUMS, ROWS]; COUNT is a power of two."""
    for step in tl.static_range(10):
        if COUNT >> step > 1:
            halves = tl.reshape(values, (SUMS, 2, COUNT >> (step + 1), ROWS))
            first, second = tl.split(tl.permute(halves, (0, 2, 3, 1)))
            values = first + second
    return tl.reshape(values, (SUMS, ROWS))


@triton.jit
def load_squares(squares, row, live, groups, GROUPS: tl.constexpr):
    """squares [rows, groups] -> GROUPS / LANES of [LANES, ROWS]; where there is none, nothing. Not added yet, so that
    nobody waits for them before they are wanted."""
    lane = tl.arange(0, LANES)
    parts = ()
    for start in tl.static_range(0, GROUPS, LANES):
        inside = (lane < groups - start)[:, None] & live[None, :]
        part = tl.load(squares + row[None, :] * groups + (lane + start)[:, None], mask=inside, other=0.0)
        parts = parts + (part,)  # type: ignore[assignment]  # noqa: RUF005 (what Triton can parse)
    return parts


@triton.jit
def root_of(parts, width, epsilon, GROUPS: tl.constexpr, ROWS: tl.constexpr):
    """What `load_squares` gives -> [ROWS]: what the norm of a row of `width` values is multiplied with."""
    total = parts[0]
    for part in tl.static_range(1, GROUPS // LANES):
        total += parts[part]
    return tl.rsqrt(tl.reshape(halved_sum(total, 1, LANES, ROWS), (ROWS,)) / width + epsilon)
