"""fp8 rows in Triton. Codes are made by integer arithmetic: bit for bit the same on a GPU and in the interpreter."""

from __future__ import annotations

import triton
import triton.language as tl

LARGEST: tl.constexpr = tl.constexpr(448.0)
SMALLEST_SCALE: tl.constexpr = tl.constexpr(2.0**-24)
LARGEST_SCALE: tl.constexpr = tl.constexpr(65504.0)


@triton.jit
def load(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    """Codes as they are; the scale is `row_scale`."""
    bits = planes[0].to(tl.pointer_type(tl.uint8), bitcast=True)
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    return _code(tl.load(bits + elements, mask=seen[:, None], other=0), DTYPE)


@triton.jit
def load_pairs(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    """Codes as they are, two at a time: those of even elements and those of odd ones."""
    pairs = planes[0].to(tl.pointer_type(tl.int16), bitcast=True)
    places = rows[:, None] * (HEAD_DIM // 2) + tl.arange(0, HEAD_DIM // 2)[None, :]
    both = tl.load(pairs + places, mask=seen[:, None], other=0)
    return _code((both & 0xFF).to(tl.uint8), DTYPE), _code(((both >> 8) & 0xFF).to(tl.uint8), DTYPE)


@triton.jit
def _code(bits, DTYPE: tl.constexpr):
    return bits.to(tl.float8e4nv, bitcast=True).to(DTYPE)


@triton.jit
def row_scale(planes, rows, seen):
    return tl.load(planes[1] + rows, mask=seen, other=0.0).to(tl.float32)


@triton.jit
def e4m3_bits(x):
    """float32 in [-448, 448] -> the nearest e4m3 as uint8, ties to even.

    A normal code keeps 3 of 23 bits of the fraction: adding half of the last kept bit, less one when that bit is even,
    carries where it should, also into the exponent, whose bias then changes from 127 to 7. Below 2^-6 codes are
    multiples of 2^-9: adding 2^14, whose last bit is worth 2^-9, makes the addition round.
    """
    bits = x.to(tl.uint32, bitcast=True)
    sign = (bits >> 24) & 0x80
    magnitude = bits & 0x7FFFFFFF
    normal = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3)
    lifted = tl.abs(x) + 16384.0
    subnormal = lifted.to(tl.uint32, bitcast=True) & 0xF
    return (sign | tl.where(magnitude < (121 << 23), subnormal, normal)).to(tl.uint8)


@triton.jit
def store(planes, rows, written, values, HEAD_DIM: tl.constexpr):
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    scale = tl.div_rn(tl.max(tl.abs(values), axis=1), tl.full([1], LARGEST, tl.float32))
    scale = tl.minimum(tl.maximum(scale, SMALLEST_SCALE), LARGEST_SCALE).to(tl.float16)
    steps = tl.div_rn(values, tl.broadcast_to(scale.to(tl.float32)[:, None], values.shape))
    codes = e4m3_bits(tl.minimum(tl.maximum(steps, -LARGEST), LARGEST))
    tl.store(planes[0] + elements, codes.to(tl.float8e4nv, bitcast=True), mask=written[:, None])
    tl.store(planes[1] + rows, scale, mask=written)
