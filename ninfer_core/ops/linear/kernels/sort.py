"""Rows of x as products with codes want them: the inputs of each place of a word together, after a norm if need be; and
the factors of rows whose norm is half done."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches
from ninfer_core.ops.linear.kernels.squares import load_squares, root_of


@triton.jit(do_not_specialize=["rows", "epsilon"])
def sort_rows(
    x,
    norm_weight,
    squares,
    y,
    factors,
    rows,
    width,
    groups,
    epsilon,
    FACTOR: tl.constexpr,
    PARTS: tl.constexpr,
    NORM: tl.constexpr,
    GROUPS: tl.constexpr,
    PADDED: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """x [rows, width] -> y [PARTS, rows, width / PARTS]: input PARTS · word + place of x at [place, row, word], times
    FACTOR, a power of two. One program for a row; PADDED, a power of two, is `width` or more.

    With NORM the zero-centred norm of `ops.rms_norm` comes first: the same numbers, rounded once. With GROUPS, `groups`
    or more and a multiple of LANES, what is left of the norm is put into `factors` [rows], from `squares`
    [rows, groups].
    """
    let_next_begin(DEPENDENT)  # what follows is a product, which reads weights alone before it waits
    column = tl.arange(0, PADDED)
    inside = column < width
    if NORM:
        weight = 1.0 + tl.load(norm_weight + column, mask=inside, other=0.0).to(tl.float32)
    wait_for_launches(DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    if GROUPS > 0:
        _store_factor(squares, factors, row, width, groups, epsilon, GROUPS)
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        value = value * tl.rsqrt(tl.sum(value * value, 0) / width + epsilon) * weight
    place = (column % PARTS * rows + row) * (width // PARTS) + column // PARTS
    tl.store(y + place, (value * FACTOR).to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["epsilon"])
def row_factors(squares, factors, width, groups, epsilon, GROUPS: tl.constexpr, DEPENDENT: tl.constexpr):
    """squares [rows, groups] -> factors [rows]; one program for a row."""
    let_next_begin(DEPENDENT)
    wait_for_launches(DEPENDENT)
    _store_factor(squares, factors, tl.program_id(0).to(tl.int64), width, groups, epsilon, GROUPS)


@triton.jit
def _store_factor(squares, factors, row, width, groups, epsilon, GROUPS: tl.constexpr):
    this = row + tl.arange(0, 1)
    loaded = load_squares(squares, this, this >= 0, groups, GROUPS)
    tl.store(factors + this, root_of(loaded, width, epsilon, GROUPS, 1))
