"""Rows of x as products with codes want them: the inputs of each place of a word together, after a norm if need be."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches
from ninfer_core.ops.kernels.nvfp4 import exchanged


@triton.jit(do_not_specialize=["rows", "epsilon"])
def sort_rows(
    x,
    norm_weight,
    y,
    rows,
    width,
    epsilon,
    FACTOR: tl.constexpr,
    PARTS: tl.constexpr,
    NORM: tl.constexpr,
    PADDED: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """x [rows, width] -> y [PARTS, rows, width / PARTS]: input PARTS · word + place of x at [place, row, word], or with
    PARTS of 4 where `linear.arrangement` has its code; times FACTOR, a power of two. One program for a row; PADDED, a
    power of two, is `width` or more.

    With NORM the zero-centred norm of `ops.rms_norm` comes first: the same numbers, rounded once.
    """
    let_next_begin(DEPENDENT)  # what follows is a product, which reads weights alone before it waits
    column = tl.arange(0, PADDED)
    inside = column < width
    if NORM:
        weight = 1.0 + tl.load(norm_weight + column, mask=inside, other=0.0).to(tl.float32)
    wait_for_launches(DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        value = value * tl.rsqrt(tl.sum(value * value, 0) / width + epsilon) * weight
    if PARTS == 4:
        place, word = column // 4 % 4, exchanged(column // 16 * 4 + column % 4)
    else:
        place, word = column % PARTS, column // PARTS
    target = (place * rows + row) * (width // PARTS) + word
    tl.store(y + target, (value * FACTOR).to(y.dtype.element_ty), mask=inside)
