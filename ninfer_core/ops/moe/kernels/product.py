"""The product that every kernel for few tokens is made of: some tokens times some rows of a matrix in any format.

The tokens are the short side, so they are the rows of the dot, and all warps share out the matrix rows. A token's sum
runs over the inputs in blocks from the first to the last, whatever else is in the tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

FP4_SHIFT: tl.constexpr = tl.constexpr(2.0**100)
"""Three bits of an e2m1 code in the upper mantissa and the lower exponent of a float32 are its value · 2**-126.
Multiplied with a block scale · 2**100 it is in the middle of the range, and the sum is multiplied with the rest."""
FP4_REST: tl.constexpr = tl.constexpr(2.0**26)


@triton.jit
def _nibble(code, factor, DOT: tl.constexpr):
    """Four bits e2m1 and the factor of their block -> value · factor / 2**126: six bits, so exact in bfloat16."""
    bits = ((code & 7) << 22) | ((code & 8) << 28)
    return (bits.to(tl.float32, bitcast=True) * factor).to(DOT)


@triton.jit
def product(
    x,
    x_scale,
    x_rows,
    x_live,
    codes,
    block_scale,
    scale,
    rows,
    rows_live,
    INPUTS: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    X_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
):
    """-> sums [BLOCK_T, BLOCK_N] float32.

    x_rows [BLOCK_T] int64 and rows [BLOCK_N] int64, the latter counted over all experts. FORMAT: "dense", "fp8" (a
    scale a row), "fp8_groups" (a scale for 128 inputs, BLOCK_K divides 128) or "nvfp4". X_FORMAT: "dense", "fp8", or
    "fp8_groups", where groups are BLOCK_K inputs; codes are multiplied with codes. DOT is the dtype of the operands of
    the dot.
    """
    x_offsets = x_rows * INPUTS
    EVEN: tl.constexpr = INPUTS % BLOCK_K == 0
    sums = tl.zeros([BLOCK_T, BLOCK_N], tl.float32)
    if FORMAT == "nvfp4":
        pairs = tl.arange(0, BLOCK_K // 2)
        blocks = tl.arange(0, BLOCK_K // 16)
        for start in range(0, INPUTS // 2, BLOCK_K // 2):
            column = start + pairs
            live = column < INPUTS // 2
            x_mask = x_live[:, None] & live[None, :]
            even = tl.load(x + x_offsets[:, None] + 2 * column[None, :], mask=x_mask, other=0.0)
            odd = tl.load(x + x_offsets[:, None] + 2 * column[None, :] + 1, mask=x_mask, other=0.0)
            mask = rows_live[:, None] & live[None, :]
            packed = tl.load(codes + rows[:, None] * (INPUTS // 2) + column[None, :], mask=mask, other=0).to(tl.int32)
            block = start // 8 + blocks
            mask = rows_live[:, None] & (block < INPUTS // 16)[None, :]
            factor = tl.load(block_scale + rows[:, None] * (INPUTS // 16) + block[None, :], mask=mask, other=0.0)
            factor = tl.broadcast_to((factor.to(tl.float32) * FP4_SHIFT)[:, :, None], [BLOCK_N, BLOCK_K // 16, 8])
            factor = tl.reshape(factor, [BLOCK_N, BLOCK_K // 2])
            sums = tl.dot(even.to(DOT), tl.trans(_nibble(packed, factor, DOT)), sums, input_precision="ieee")
            sums = tl.dot(odd.to(DOT), tl.trans(_nibble(packed >> 4, factor, DOT)), sums, input_precision="ieee")
        sums = sums * (tl.load(scale + rows, mask=rows_live, other=0.0) * FP4_REST)[None, :]
    else:
        columns = tl.arange(0, BLOCK_K)
        for start in range(0, INPUTS, BLOCK_K):
            column = start + columns
            live = tl.full([BLOCK_K], True, tl.int1) if EVEN else column < INPUTS
            token = tl.load(x + x_offsets[:, None] + column[None, :], mask=x_live[:, None] & live[None, :], other=0.0)
            mask = rows_live[:, None] & live[None, :]
            tile = tl.load(codes + rows[:, None] * INPUTS + column[None, :], mask=mask, other=0.0).to(DOT)
            if FORMAT == "fp8_groups" or X_FORMAT == "fp8_groups":
                part = tl.dot(token.to(DOT), tl.trans(tile), input_precision="ieee")
                if FORMAT == "fp8_groups":
                    groups: tl.constexpr = (INPUTS + 127) // 128
                    factor = tl.load(scale + rows * groups + start // 128, mask=rows_live, other=0.0)
                    part = part * factor[None, :]
                if X_FORMAT == "fp8_groups":
                    x_groups: tl.constexpr = (INPUTS + BLOCK_K - 1) // BLOCK_K
                    factor = tl.load(x_scale + x_rows * x_groups + start // BLOCK_K, mask=x_live, other=0.0)
                    part = part * factor[:, None]
                sums += part
            else:
                sums = tl.dot(token.to(DOT), tl.trans(tile), sums, input_precision="ieee")
        if FORMAT == "fp8":
            sums = sums * tl.load(scale + rows, mask=rows_live, other=0.0)[None, :]
        if X_FORMAT == "fp8":
            sums = sums * tl.load(x_scale + x_rows, mask=x_live, other=0.0)[:, None]
    return sums


@triton.jit
def gated(sums, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr):
    """sums [BLOCK_T, BLOCK_N] of rows gate, up, gate, up ... -> silu(gate) · up, [BLOCK_T, BLOCK_N / 2]."""
    gate, up = tl.split(tl.reshape(sums, [BLOCK_T, BLOCK_N // 2, 2]))
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def gated_rows(first, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr):
    """-> rows [BLOCK_N] that alternate between gate and up from output `first` on, and which of them there are."""
    place = tl.arange(0, BLOCK_N)
    output = first + place // 2
    return (output + (place % 2) * WIDTH).to(tl.int64), output < WIDTH


@triton.jit
def to_codes(values, CODE: tl.constexpr):
    """values [rows, columns] float32 -> e4m3 codes of dtype CODE and scales [rows], codes · scale being the values."""
    scale = tl.max(tl.abs(values), 1) / 448.0
    scale = tl.where(scale == 0.0, 1.0, scale)
    return (values / scale[:, None]).to(CODE), scale
