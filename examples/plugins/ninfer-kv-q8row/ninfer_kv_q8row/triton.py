"""The same format inside the core's attention kernels. `planes` are the codes and the scales of a part."""

from __future__ import annotations

import triton
import triton.language as tl

LARGEST_CODE: tl.constexpr = tl.constexpr(127.0)
LARGEST_SCALE: tl.constexpr = tl.constexpr(65504.0)
ROUNDING: tl.constexpr = tl.constexpr(1.5 * 2.0**23)
"""float32 numbers of this size are whole: adding it and taking it away again rounds to nearest, ties to even."""


@triton.jit
def load(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    """Codes as they are; `row_scale` has the factor."""
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    return tl.load(planes[0] + elements, mask=seen[:, None], other=0).to(DTYPE)


@triton.jit
def load_pairs(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    """The same two at a time: codes of even elements and codes of odd ones."""
    pairs = planes[0].to(tl.pointer_type(tl.int16), bitcast=True)
    places = rows[:, None] * (HEAD_DIM // 2) + tl.arange(0, HEAD_DIM // 2)[None, :]
    both = tl.load(pairs + places, mask=seen[:, None], other=0)
    # A shift to the right keeps the sign, so the lower code goes up first.
    return ((both << 8) >> 8).to(DTYPE), (both >> 8).to(DTYPE)


@triton.jit
def row_scale(planes, rows, seen):
    return tl.load(planes[1] + rows, mask=seen, other=0.0).to(tl.float32)


@triton.jit
def store(planes, rows, written, values, HEAD_DIM: tl.constexpr):
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    largest = tl.div_rn(tl.max(tl.abs(values), axis=1), tl.full([1], LARGEST_CODE, tl.float32))
    scale = tl.minimum(largest, LARGEST_SCALE).to(tl.float16)
    divisor = tl.broadcast_to(scale.to(tl.float32)[:, None], values.shape)
    steps = tl.where(divisor == 0.0, 0.0, tl.div_rn(values, tl.where(divisor == 0.0, 1.0, divisor)))
    codes = tl.minimum(tl.maximum((steps + ROUNDING) - ROUNDING, -LARGEST_CODE), LARGEST_CODE)
    tl.store(planes[0] + elements, codes.to(tl.int8), mask=written[:, None])
    tl.store(planes[1] + rows, scale, mask=written)
