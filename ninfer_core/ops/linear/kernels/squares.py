"""Sums of squares of rows, in an order that neither the layout of a tile nor the number of warps decides.

Who writes a row leaves the sum of every few values of it, who reads the row adds these up. Both add halves to halves:
so a row's sum has the same bits in every launch, whatever its tile.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def halved_sum(values, SUMS: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """[SUMS · COUNT, ROWS] -> [SUMS, ROWS]; COUNT is a power of two."""
    for step in tl.static_range(COUNT.bit_length() - 1):
        halves = tl.reshape(values, (SUMS, 2, COUNT >> (step + 1), ROWS))
        first, second = tl.split(tl.permute(halves, (0, 2, 3, 1)))
        values = first + second
    return tl.reshape(values, (SUMS, ROWS))


@triton.jit
def load_squares(squares, row, live, groups, GROUPS: tl.constexpr):
    """squares [rows, groups] -> [GROUPS, ROWS], nothing where there is none."""
    group = tl.arange(0, GROUPS)
    return tl.load(
        squares + row[None, :] * groups + group[:, None], mask=live[None, :] & (group < groups)[:, None], other=0.0
    )


@triton.jit
def root_of(squares, width, epsilon, GROUPS: tl.constexpr, ROWS: tl.constexpr):
    """[GROUPS, ROWS] -> [ROWS]: what the norm of a row of `width` values is multiplied with."""
    return tl.rsqrt(tl.reshape(halved_sum(squares, 1, GROUPS, ROWS), (ROWS,)) / width + epsilon)
