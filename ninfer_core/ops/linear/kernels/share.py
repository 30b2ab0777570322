"""What one program does of a linear map for few rows: every weight is read once, at the rate of the memory.

A program owns some outputs and walks over its inputs in blocks, the loads of the next blocks under way while it
multiplies. Matrix rows are the long side of the dot and rows of x the short one, padded to a class that does not depend
on how many there are. Where too few outputs would leave the memory idle, SPLITS programs share the inputs of a block of
outputs, and the last of them adds up. A share is a multiple of STEP inputs, whatever else the tile is, and products are
added word by word: so the bits of a row depend on SPLITS, not on how many rows there are nor on the class that they are
padded to (`tiles` knows what else they depend on).
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import silu
from ninfer_core.ops.kernels.codes import BLOCK_REST, E4M3_SHIFT, e4m3
from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches
from ninfer_core.ops.kernels.nvfp4 import add_e2m1, by_place, word_factors
from ninfer_core.ops.workspace.linear_tiles import LEAST_SHARE

QUAD: tl.constexpr = tl.constexpr(4)
"""Block scales of a row are a multiple of it, so that they can be copied by words without waiting."""
GROUP: tl.constexpr = tl.constexpr(128)
"""Inputs that share a scale in block-scaled fp8."""
STEP: tl.constexpr = tl.constexpr(LEAST_SHARE)


@triton.jit
def _load(pointers, mask, EVEN: tl.constexpr):
    """Weights: read once, so that they are the first to leave the cache."""
    if EVEN:
        return tl.load(pointers, eviction_policy="evict_first")
    else:
        return tl.load(pointers, mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit
def _halves(value, HALF: tl.constexpr, ROWS: tl.constexpr):
    """[2 · HALF, ROWS] -> the values at even places and those at odd ones."""
    return tl.split(tl.permute(tl.reshape(value, (HALF, 2, ROWS)), (0, 2, 1)))


@triton.jit
def _add_e4m3(even_sums, odd_sums, code, even, odd, ASSEMBLY: tl.constexpr):
    """Products of the codes in both places of a word, in sums of their own: no dot waits for the other."""
    even_sums = tl.dot(e4m3(code, 0, ASSEMBLY), even, even_sums, input_precision="ieee")
    return even_sums, tl.dot(e4m3(code, 1, ASSEMBLY), odd, odd_sums, input_precision="ieee")


@triton.jit
def _finish(sums, ups, before, y, live, GATED: tl.constexpr, RESIDUAL: tl.constexpr):
    """What follows the sums, rounded once. `before` is the residual."""
    if GATED:
        sums = silu(sums) * ups
    if RESIDUAL:
        sums += before.to(tl.float32)
    tl.store(y, sums.to(y.dtype.element_ty), mask=live)


@triton.jit
def multiply_share(
    x,
    weight,
    block_scale,
    scale,
    residual,
    y,
    partial,
    counters,
    block,
    share,
    rows,
    outputs,
    inputs,
    FORMAT: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    EVEN: tl.constexpr,
    SORTED: tl.constexpr,
    ALONE: tl.constexpr,
    EARLY: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    ASSEMBLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """The share `share` of SPLITS of the inputs of a block of outputs; arguments as in `kernels.few_rows`."""
    PARTS: tl.constexpr = 4 if FORMAT == "nvfp4" else (1 if FORMAT == "dense" else 2)  # codes in an element of `weight`
    GROUPED: tl.constexpr = FORMAT == "fp8_groups"
    WALK: tl.constexpr = INPUTS // PARTS
    HELD: tl.constexpr = 1 if ALONE else ROWS  # rows of x that are loaded
    LIKE: tl.constexpr = x.dtype.element_ty
    width = outputs // 2 if GATED else outputs
    output = block * OUTPUTS + tl.arange(0, OUTPUTS)
    output_live = output < width
    output = tl.where(output_live, output, width - 1)
    row = tl.arange(0, ROWS)
    row_live = row < rows
    held = tl.arange(0, HELD)
    held_live = held < rows
    live = output_live[:, None] & row_live[None, :]
    target = row[None, :] * width + output[:, None]
    place = tl.arange(0, WALK)
    stride = inputs // PARTS
    if PARTS > 1:
        stride = tl.multiple_of(stride, 8)
    each = tl.cdiv(tl.cdiv(inputs, STEP), SPLITS) * STEP
    begin = share * each
    end = tl.minimum(begin + each, inputs)
    up = width.to(tl.int64)
    weights = weight + output.to(tl.int64) * stride
    weights = weights[:, None] + place[None, :]
    scale_groups = (inputs + GROUP - 1) // GROUP if GROUPED else 1
    scales = scale + output.to(tl.int64) * scale_groups
    scale_block = tl.arange(0, INPUTS // 16)
    block_stride = tl.multiple_of(inputs // 16, QUAD)
    blocks = block_scale + output.to(tl.int64)[:, None] * block_stride + scale_block[None, :]
    column = tl.arange(0, INPUTS)
    if SORTED:
        x += held[None, :] * stride + place[:, None]
        x_part = rows * stride
    else:
        x += held[None, :] * inputs + column[:, None]
    sums = tl.zeros((OUTPUTS, ROWS), tl.float32)
    ups = tl.zeros((OUTPUTS, ROWS), tl.float32)
    odd_sums = tl.zeros((OUTPUTS, ROWS), tl.float32)
    odd_ups = tl.zeros((OUTPUTS, ROWS), tl.float32)
    group = tl.minimum(begin // GROUP, scale_groups - 1)  # the last programs may have nothing to do
    group_scale = tl.load(scales + group) if GROUPED else tl.zeros((OUTPUTS,), tl.float32)
    up_group_scale = group_scale
    if GROUPED and GATED:
        up_group_scale = tl.load(scales + up * scale_groups + group)
    # Scales here and the residual before the loop: behind it everybody would wait for them.
    REST: tl.constexpr = BLOCK_REST if FORMAT == "nvfp4" else E4M3_SHIFT
    ROW_SCALED: tl.constexpr = FORMAT == "fp8" or FORMAT == "nvfp4"
    row_scale = tl.load(scales) * REST if ROW_SCALED else group_scale
    up_row_scale = tl.load(scales + up) * REST if GATED and ROW_SCALED else row_scale
    wait_for_launches(DEPENDENT)
    if EARLY:
        let_next_begin(DEPENDENT)
    before = tl.load(residual + target, mask=live, other=0.0) if RESIDUAL else sums
    for start in tl.range(begin, end, INPUTS, num_stages=STAGES):
        at = start // PARTS
        if PARTS > 1:
            at = tl.multiple_of(at, 8)
        mask = (place < stride - at)[None, :]
        inside = (place < stride - at) if SORTED else (column < inputs - start)
        x_mask = held_live[None, :] if EVEN else held_live[None, :] & inside[:, None]
        code = _load(weights + at, mask, EVEN)
        if GATED:
            up_code = _load(weights + up * stride + at, mask, EVEN)
        if SORTED:
            first = tl.load(x + at, mask=x_mask, other=0.0)
            second = tl.load(x + x_part + at, mask=x_mask, other=0.0)
        else:
            value = tl.load(x + start, mask=x_mask, other=0.0)
        if FORMAT == "dense":
            sums = tl.dot(code, value, sums, input_precision="ieee")
            if GATED:
                ups = tl.dot(up_code, value, ups, input_precision="ieee")
        elif FORMAT == "nvfp4":
            ahead = blocks + tl.multiple_of(start // 16, QUAD)
            block_mask = (scale_block < (inputs - start) // 16)[None, :]
            factor = word_factors(_load(ahead, block_mask, EVEN), OUTPUTS, WALK, LIKE, True)
            if SORTED:
                third = tl.load(x + 2 * x_part + at, mask=x_mask, other=0.0)
                fourth = tl.load(x + 3 * x_part + at, mask=x_mask, other=0.0)
            else:
                first, second, third, fourth = by_place(value, WALK, HELD, ROWS, True)
            sums, odd_sums = add_e2m1(sums, odd_sums, code, factor, first, second, third, fourth, ASSEMBLY)
            if GATED:
                up_scale = _load(ahead + up * block_stride, block_mask, EVEN)
                factor = word_factors(up_scale, OUTPUTS, WALK, LIKE, True)
                ups, odd_ups = add_e2m1(ups, odd_ups, up_code, factor, first, second, third, fourth, ASSEMBLY)
        else:
            if not SORTED:
                first, second = _halves(value * tl.full((1, 1), E4M3_SHIFT, LIKE), WALK, ROWS)
            if GROUPED:
                nothing = tl.zeros((OUTPUTS, ROWS), tl.float32)
                added, odd_added = _add_e4m3(nothing, nothing, code, first, second, ASSEMBLY)
                sums += (added + odd_added) * group_scale[:, None]
                # A block ahead, so that no product waits for it.
                after = tl.minimum(start // GROUP + 1, scale_groups - 1)
                group_scale = tl.load(scales + after)
                if GATED:
                    added, odd_added = _add_e4m3(nothing, nothing, up_code, first, second, ASSEMBLY)
                    ups += (added + odd_added) * up_group_scale[:, None]
                    up_group_scale = tl.load(scales + up * scale_groups + after)
            else:
                sums, odd_sums = _add_e4m3(sums, odd_sums, code, first, second, ASSEMBLY)
                if GATED:
                    ups, odd_ups = _add_e4m3(ups, odd_ups, up_code, first, second, ASSEMBLY)
    if not EARLY:
        let_next_begin(DEPENDENT)
    sums += odd_sums
    ups += odd_ups
    if GROUPED:
        sums *= E4M3_SHIFT
        ups *= E4M3_SHIFT
    elif ROW_SCALED:
        sums *= row_scale[:, None]
        ups *= up_row_scale[:, None]
    if SPLITS == 1:
        _finish(sums, ups, before, y + target, live, GATED, RESIDUAL)
    else:
        BOTH: tl.constexpr = 2 if GATED else 1
        size = BOTH * OUTPUTS * ROWS
        mine = partial + block.to(tl.int64) * SPLITS * size
        mine += tl.arange(0, OUTPUTS)[:, None] * ROWS + row[None, :]
        tl.store(mine + share * size, sums)
        if GATED:
            tl.store(mine + share * size + OUTPUTS * ROWS, ups)
        tl.debug_barrier()  # all of it is written before the program says so
        if tl.atomic_add(counters + block, 1) == SPLITS - 1:
            total = tl.zeros((OUTPUTS, ROWS), tl.float32)
            total_up = tl.zeros((OUTPUTS, ROWS), tl.float32)
            for split in tl.static_range(SPLITS):
                # Written by other programs of this launch: not to be found in the cache of this multiprocessor.
                total += tl.load(mine + split * size, cache_modifier=".cg")
                if GATED:
                    total_up += tl.load(mine + split * size + OUTPUTS * ROWS, cache_modifier=".cg")
            tl.store(counters + block, 0)
            _finish(total, total_up, before, y + target, live, GATED, RESIDUAL)
