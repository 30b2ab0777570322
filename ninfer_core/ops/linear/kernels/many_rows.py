"""What stands around a product over many rows: activations into fp8 codes, and weights out of their codes."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import silu
from ninfer_core.ops.kernels.codes import E2M1_UNIT, E4M3_UNIT, e2m1, e4m3
from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches
from ninfer_core.ops.kernels.nvfp4 import exchanged

E4M3_MAXIMUM: tl.constexpr = tl.constexpr(448.0)


@triton.jit
def quantise_rows(
    x,
    norm_weight,
    codes,
    scale,
    width,
    epsilon,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    PADDED: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Each row, after its norm or gated activation if any -> codes [rows, width] e4m3 and scale [rows] float32.

    A program holds a row, which is read once: x [rows, width], or [rows, 2 · width] where GATED. The scale of a row of
    zeros is one. Rows need nothing of each other.
    """
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, PADDED)
    inside = column < width
    wait_for_launches(DEPENDENT)
    if GATED:
        gate = tl.load(x + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
        value = silu(gate) * tl.load(x + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    else:
        value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    let_next_begin(DEPENDENT)
    if NORM:
        root = tl.rsqrt(tl.sum(value * value, 0) / width + epsilon)
        value = value * root * (1.0 + tl.load(norm_weight + column, mask=inside, other=0.0).to(tl.float32))
    largest = tl.max(tl.abs(value), 0)
    step = tl.where(largest > 0, largest / E4M3_MAXIMUM, 1.0)
    value = tl.minimum(tl.maximum(value / step, -E4M3_MAXIMUM), E4M3_MAXIMUM)
    tl.store(codes + row * width + column, value.to(codes.dtype.element_ty), mask=inside)
    tl.store(scale + row, step)


@triton.jit
def decode_fp8(codes, scale, weight, inputs, groups, GROUP: tl.constexpr, BLOCK: tl.constexpr, ASSEMBLY: tl.constexpr):
    """codes [outputs, inputs / 2] words, scale [outputs, groups] -> weight. Grid: (outputs, blocks of words)."""
    row = tl.program_id(0).to(tl.int64)
    word = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(codes + row * (inputs // 2) + word, mask=word < inputs // 2, other=0)
    value = tl.interleave(e4m3(code, 0, ASSEMBLY).to(tl.float32), e4m3(code, 1, ASSEMBLY).to(tl.float32))
    column = tl.program_id(1) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    factor = tl.load(scale + row * groups + column // GROUP, mask=column < inputs, other=0.0)
    value = value * E4M3_UNIT * factor
    tl.store(weight + row * inputs + column, value.to(weight.dtype.element_ty), mask=column < inputs)


@triton.jit
def decode_nvfp4(
    codes, block_scale, scale, weight, inputs, EXCHANGED: tl.constexpr, BLOCK: tl.constexpr, ASSEMBLY: tl.constexpr
):
    """codes [outputs, inputs / 4] words -> weight [outputs, inputs]. Grid: (outputs, blocks of words).

    EXCHANGED: words are, as in `linear.arrangement`. The scale of the matrix rounds last, as in the reference.
    """
    row = tl.program_id(0).to(tl.int64)
    word = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = word < inputs // 4
    place = exchanged(word) if EXCHANGED else word
    code = tl.load(codes + row * (inputs // 4) + place, mask=inside, other=0)
    factor = tl.load(block_scale + row * (inputs // 16) + word // 4, mask=inside, other=0.0).to(tl.float32)
    rest = tl.load(scale + row)
    first, second, third, fourth = e2m1(code, ASSEMBLY)
    early = tl.join(first.to(tl.float32), second.to(tl.float32))
    late = tl.join(third.to(tl.float32), fourth.to(tl.float32))
    value = tl.join(early, late) * E2M1_UNIT * factor[:, None, None]  # exact, six bits: [words, second?, late?]
    value = tl.reshape(tl.permute(tl.reshape(value, (BLOCK // 4, 4, 2, 2)), (0, 3, 2, 1)), (4 * BLOCK,)) * rest
    column = tl.program_id(1) * 4 * BLOCK + tl.arange(0, 4 * BLOCK)
    tl.store(weight + row * inputs + column, value.to(weight.dtype.element_ty), mask=column < inputs)
