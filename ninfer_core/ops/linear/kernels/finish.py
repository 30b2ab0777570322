"""What follows the sums of a block of outputs: activation, residual, and what the next norm wants of the result."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.linear.kernels.squares import halved_sum, load_squares, root_of
from ninfer_core.ops.swiglu.triton import silu


@triton.jit
def load_norm(squares, row, live, groups, ROOT: tl.constexpr, GROUPS: tl.constexpr):
    """What `root` makes the factor of every row of: its sums of squares, or the factor itself, [rows]."""
    if ROOT == "squares":
        return load_squares(squares, row, live, groups, GROUPS)
    else:
        return tl.load(squares + row, mask=live, other=0.0)


@triton.jit
def root(loaded, width, epsilon, ROOT: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr):
    """-> [ROWS]: what the norm of x multiplies a row with."""
    if ROOT == "squares":
        return root_of(loaded, width, epsilon, GROUPS, ROWS)
    else:
        return loaded


@triton.jit
def finish(
    sums,
    ups,
    factor,
    added,
    y,
    next_factor,
    scaled,
    next_squares,
    block,
    row,
    row_live,
    width,
    ROOT: tl.constexpr,
    GATED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    READY: tl.constexpr,
    SQUARED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """sums, ups [OUTPUTS, ROWS], `factor` [ROWS] of the norm of x where there is a ROOT, `added` the residual -> a
    block of y, rounded once. READY: also `scaled`, y times `next_factor` [OUTPUTS], and in `next_squares`
    [rows, width / SQUARED] the sums of the squares of y as it is stored."""
    if ROOT != "none":
        sums *= factor[None, :]
        if GATED:
            ups *= factor[None, :]
    if GATED:
        sums = silu(sums) * ups
    if RESIDUAL:
        sums += added.to(tl.float32)
    result = sums.to(y.dtype.element_ty)
    output = block * OUTPUTS + tl.arange(0, OUTPUTS)
    live = (output < width)[:, None] & row_live[None, :]
    target = row[None, :] * width + output[:, None]
    tl.store(y + target, result, mask=live)
    if READY:
        value = tl.where(live, result.to(tl.float32), 0.0)
        tl.store(scaled + target, (value * next_factor[:, None]).to(scaled.dtype.element_ty), mask=live)
        SUMS: tl.constexpr = OUTPUTS // SQUARED
        group = block * SUMS + tl.arange(0, SUMS)
        groups = tl.cdiv(width, SQUARED)
        inside = (group < groups)[:, None] & row_live[None, :]
        total = halved_sum(value * value, SUMS, SQUARED, ROWS)
        tl.store(next_squares + row[None, :] * groups + group[:, None], total, mask=inside)
