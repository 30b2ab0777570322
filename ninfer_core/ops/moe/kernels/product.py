"""The product that every kernel of the layer is made of: some tokens times some rows of a matrix in any format.

The tokens are the rows of the dot, and all warps share out the matrix rows. A token's sum runs over the inputs in
blocks from the first to the last, whatever else is in the tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import silu
from ninfer_core.ops.kernels.codes import BLOCK_REST, E4M3_SHIFT, e2m1, e4m3
from ninfer_core.ops.kernels.nvfp4 import by_place, word_factors


@triton.jit
def _halves(x, BLOCK_T: tl.constexpr, HALF: tl.constexpr):
    """x [BLOCK_T, 2 · HALF] -> its even columns and its odd ones."""
    return tl.split(tl.reshape(x, [BLOCK_T, HALF, 2]))


@triton.jit
def _add(sums, token, weight):
    return tl.dot(token, tl.trans(weight), sums, input_precision="ieee")


@triton.jit
def _add_e4m3(sums, x, words, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, DOT: tl.constexpr):
    """sums + x wordsᵀ / E4M3_SHIFT, words [rows, BLOCK_K / 2] of two codes each."""
    ASSEMBLY: tl.constexpr = DOT == tl.bfloat16  # noqa: SIM300
    even, odd = _halves((x.to(tl.float32) * E4M3_SHIFT).to(DOT), BLOCK_T, BLOCK_K // 2)
    sums = _add(sums, even, e4m3(words, 0, ASSEMBLY).to(DOT))
    return _add(sums, odd, e4m3(words, 1, ASSEMBLY).to(DOT))


@triton.jit
def _add_e2m1(
    sums, x, words, factor, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, EXCHANGED: tl.constexpr, DOT: tl.constexpr
):
    """sums + x (words · factor)ᵀ / BLOCK_REST, words [rows, BLOCK_K / 4] of four codes each."""
    ASSEMBLY: tl.constexpr = DOT == tl.bfloat16  # noqa: SIM300
    first, second, third, fourth = by_place(tl.trans(x.to(DOT)), BLOCK_K // 4, BLOCK_T, BLOCK_T, EXCHANGED)
    first_code, second_code, third_code, fourth_code = e2m1(words, ASSEMBLY)
    sums = _add(sums, tl.trans(first), (first_code * factor).to(DOT))
    sums = _add(sums, tl.trans(second), (second_code * factor).to(DOT))
    sums = _add(sums, tl.trans(third), (third_code * factor).to(DOT))
    return _add(sums, tl.trans(fourth), (fourth_code * factor).to(DOT))


@triton.jit
def _factors(
    block_scale,
    rows,
    rows_live,
    start,
    INPUTS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EXCHANGED: tl.constexpr,
    DOT: tl.constexpr,
):
    """[BLOCK_N, BLOCK_K / 4] in DOT: the block scale · BLOCK_SHIFT of every word of e2m1 codes from input `start`."""
    block = start // 16 + tl.arange(0, BLOCK_K // 16)
    mask = rows_live[:, None] & (block < INPUTS // 16)[None, :]
    factor = tl.load(block_scale + rows[:, None] * (INPUTS // 16) + block[None, :], mask=mask, other=0.0)
    return word_factors(factor, BLOCK_N, BLOCK_K // 4, DOT, EXCHANGED)


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
    scale a row), "fp8_groups" (a scale for 128 inputs, BLOCK_K divides 128) or "nvfp4". X_FORMAT: "dense", where codes
    of weights come as 16-bit words; or "fp8" or "fp8_groups" (groups are BLOCK_K inputs), where codes are multiplied
    with codes. DOT is the dtype of the operands of the dot.
    """
    EVEN: tl.constexpr = INPUTS % BLOCK_K == 0
    EXCHANGED: tl.constexpr = INPUTS % 128 == 0  # as `linear.arrangement` has it; BLOCK_K is such a multiple then
    GROUPS: tl.constexpr = (INPUTS + 127) // 128
    X_GROUPS: tl.constexpr = (INPUTS + BLOCK_K - 1) // BLOCK_K
    BOTH_CODED: tl.constexpr = X_FORMAT != "dense"
    GROUPED: tl.constexpr = FORMAT == "fp8_groups" or X_FORMAT == "fp8_groups"
    # Weights in an element of `codes`.
    PARTS: tl.constexpr = 1 if BOTH_CODED or FORMAT == "dense" else (4 if FORMAT == "nvfp4" else 2)
    sums = tl.zeros([BLOCK_T, BLOCK_N], tl.float32)
    columns = tl.arange(0, BLOCK_K)
    places = tl.arange(0, BLOCK_K // PARTS)
    for start in range(0, INPUTS, BLOCK_K):
        column = start + columns
        live = tl.full([BLOCK_K], True, tl.int1) if EVEN else column < INPUTS
        place = start // PARTS + places
        place_live = tl.full([BLOCK_K // PARTS], True, tl.int1) if EVEN else place < INPUTS // PARTS
        token = tl.load(
            x + (x_rows * INPUTS)[:, None] + column[None, :], mask=x_live[:, None] & live[None, :], other=0.0
        )
        mask = rows_live[:, None] & place_live[None, :]
        tile = tl.load(codes + rows[:, None] * (INPUTS // PARTS) + place[None, :], mask=mask, other=0.0)
        added = tl.zeros([BLOCK_T, BLOCK_N], tl.float32) if GROUPED else sums
        if BOTH_CODED or FORMAT == "dense":
            added = _add(added, token.to(DOT), tile.to(DOT))
        elif FORMAT == "nvfp4":
            factor = _factors(block_scale, rows, rows_live, start, INPUTS, BLOCK_N, BLOCK_K, EXCHANGED, DOT)
            added = _add_e2m1(added, token, tile, factor, BLOCK_T, BLOCK_K, EXCHANGED, DOT)
        else:
            added = _add_e4m3(added, token, tile, BLOCK_T, BLOCK_K, DOT)
        if FORMAT == "fp8_groups":
            factor = tl.load(scale + rows * GROUPS + start // 128, mask=rows_live, other=0.0)
            added = added * factor[None, :]
        if X_FORMAT == "fp8_groups":
            factor = tl.load(x_scale + x_rows * X_GROUPS + start // BLOCK_K, mask=x_live, other=0.0)
            added = added * factor[:, None]
        sums = sums + added if GROUPED else added
    if PARTS == 2:
        sums = sums * E4M3_SHIFT
    if FORMAT == "nvfp4":
        sums = sums * BLOCK_REST
    if FORMAT == "fp8" or FORMAT == "nvfp4":
        sums = sums * tl.load(scale + rows, mask=rows_live, other=0.0)[None, :]
    if X_FORMAT == "fp8":
        sums = sums * tl.load(x_scale + x_rows, mask=x_live, other=0.0)[:, None]
    return sums


@triton.jit
def gated(sums, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr):
    """sums [BLOCK_T, BLOCK_N] of rows gate, up, gate, up ... -> silu(gate) · up, [BLOCK_T, BLOCK_N / 2]."""
    gate, up = tl.split(tl.reshape(sums, [BLOCK_T, BLOCK_N // 2, 2]))
    return silu(gate) * up


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
