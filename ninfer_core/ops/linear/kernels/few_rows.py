"""A linear map for few rows: every weight is read once, at the rate of the memory.

A program owns some outputs and walks over all inputs in blocks, the loads of the next blocks under way while it
multiplies. Matrix rows are the long side of the dot and rows of x the short one, padded to a class that does not depend
on how many there are; so a sum always runs from the first input to the last, whoever else is in the batch.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ninfer_core.ops.linear.kernels.codes import e2m1_high, e2m1_low, e4m3
from ninfer_core.ops.swiglu.triton import silu

E4M3_SHIFT: tl.constexpr = tl.constexpr(2.0**60)
"""Half of `codes.E4M3_UNIT`: x is multiplied with it and the sum again, so that neither leaves the range of float32."""
BLOCK_SHIFT: tl.constexpr = tl.constexpr(2.0**118)
"""A block scale times this and an e2m1 code over E2M1_UNIT are a value · 2**-8; more would overflow bfloat16."""
BLOCK_REST: tl.constexpr = tl.constexpr(2.0**8)
GROUP: tl.constexpr = tl.constexpr(128)
"""Inputs that share a scale in block-scaled fp8."""


@triton.jit
def _normed(x, weight, squares, SHIFT: tl.constexpr):
    """x · (1 + w) in the dtype of x, and the squares so far. What they are the mean of divides the finished sum."""
    wide = x.to(tl.float32)
    factor = SHIFT + SHIFT * weight.to(tl.float32)
    return (wide * factor[:, None]).to(x.dtype), squares + wide * wide


@triton.jit
def _halves(pairs, LIKE: tl.constexpr):
    """Pairs of 16-bit values as they lie in memory, int32 -> the first and the second ones."""
    first = (pairs & 0xFFFF).to(tl.int16).to(LIKE, bitcast=True)
    return first, (pairs >> 16).to(tl.int16).to(LIKE, bitcast=True)


@triton.jit
def _load(pointers, mask, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=mask, other=0.0)


@triton.jit
def _stream(pointers, mask, EVEN: tl.constexpr):
    """Weights: read once, so that they are the first to leave the cache."""
    if EVEN:
        return tl.load(pointers, eviction_policy="evict_first")
    else:
        return tl.load(pointers, mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit
def _pairs(pointers, mask, EVEN: tl.constexpr, LIKE: tl.constexpr):
    """Values at even and at odd places: one load of both where they have 16 bits. `pointers` are of the even ones."""
    if tl.float32 == LIKE:
        return _load(pointers, mask, EVEN), _load(pointers + 1, mask, EVEN)
    else:
        return _halves(_load(pointers.to(tl.pointer_type(tl.int32)), mask, EVEN), LIKE)


@triton.jit
def _add_nvfp4(
    sums,
    codes,
    blocks,
    mask,
    block_mask,
    even,
    odd,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_INPUTS: tl.constexpr,
    EVEN: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):
    """sums + W x of a block of inputs, those at even and odd places apart, as their codes lie in a byte."""
    code = _stream(codes, mask, EVEN)
    scale = _stream(blocks, block_mask, EVEN)
    scale = (scale.to(tl.float32) * BLOCK_SHIFT).to(even.dtype)
    scale = tl.broadcast_to(scale[:, :, None], (BLOCK_OUTPUTS, BLOCK_INPUTS // 16, 8))
    scale = tl.reshape(scale, (BLOCK_OUTPUTS, BLOCK_INPUTS // 2))
    sums = tl.dot(e2m1_low(code, ASSEMBLY) * scale, even, sums, input_precision="ieee")
    return tl.dot(e2m1_high(code, ASSEMBLY) * scale, odd, sums, input_precision="ieee")


@triton.jit
def _add(sums, weights, scales, mask, x, FORMAT: tl.constexpr, EVEN: tl.constexpr, ASSEMBLY: tl.constexpr):
    """sums + W x of a block of inputs."""
    weight = _stream(weights, mask, EVEN)
    if FORMAT == "dense":
        sums = tl.dot(weight, x, sums, input_precision="ieee")
    elif FORMAT == "fp8":
        sums = tl.dot(e4m3(weight, ASSEMBLY), x, sums, input_precision="ieee")
    else:
        sums += tl.dot(e4m3(weight, ASSEMBLY), x, input_precision="ieee") * tl.load(scales)[:, None]
    return sums


@triton.jit(do_not_specialize=["rows"])
def few_rows(
    x,
    weight,
    block_scale,
    scale,
    norm_weight,
    residual,
    y,
    rows,
    outputs,
    inputs,
    epsilon,
    FORMAT: tl.constexpr,
    NORM: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    EVEN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_INPUTS: tl.constexpr,
    STAGES: tl.constexpr,
    ASSEMBLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """x [rows, inputs] -> y [rows, outputs], or half as many outputs where GATED. Grid: (blocks of results,).

    FORMAT is "dense", "fp8" (a scale a row), "fp8_groups" (BLOCK_INPUTS is GROUP) or "nvfp4"; weight and scales as in
    `linear.matrix`, e4m3 codes as bytes. EVEN: BLOCK_INPUTS divides `inputs`. ROWS, a power of two, is `rows` or more.
    """
    PAIRED: tl.constexpr = FORMAT == "nvfp4"
    GROUPED: tl.constexpr = FORMAT == "fp8_groups"
    SHIFT: tl.constexpr = E4M3_SHIFT if FORMAT == "fp8" or FORMAT == "fp8_groups" else 1.0
    WALK: tl.constexpr = BLOCK_INPUTS // 2 if PAIRED else BLOCK_INPUTS  # elements of a row of `weight` at once
    LIKE: tl.constexpr = x.dtype.element_ty
    width = outputs // 2 if GATED else outputs
    output = tl.program_id(0) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    output_live = output < width
    output = tl.where(output_live, output, width - 1)
    row = tl.arange(0, ROWS)
    row_live = row < rows
    place = tl.arange(0, WALK)
    stride = inputs // 2 if PAIRED else inputs
    up = width.to(tl.int64)
    weights = weight + output.to(tl.int64)[:, None] * stride + place[None, :]
    groups = (inputs + GROUP - 1) // GROUP if GROUPED else 1
    scales = scale + output.to(tl.int64) * groups
    if PAIRED:
        block = tl.arange(0, BLOCK_INPUTS // 16)
        blocks = block_scale + output.to(tl.int64)[:, None] * (inputs // 16) + block[None, :]
        x += row[None, :] * inputs + 2 * place[:, None]
        norm_weight += 2 * place
    else:
        x += row[None, :] * inputs + place[:, None]
        norm_weight += place
    sums = tl.zeros((BLOCK_OUTPUTS, ROWS), tl.float32)
    ups = tl.zeros((BLOCK_OUTPUTS, ROWS), tl.float32)
    squares = tl.zeros((WALK, ROWS), tl.float32)
    if DEPENDENT:
        gdc_wait()
    for start in tl.range(0, inputs, BLOCK_INPUTS, num_stages=STAGES):
        at = start // 2 if PAIRED else start
        inside = place < stride - at
        mask = inside[None, :]
        x_mask = row_live[None, :] if EVEN else row_live[None, :] & inside[:, None]
        if PAIRED:
            block_mask = (block < (inputs - start) // 16)[None, :]
            even, odd = _pairs(x + start, x_mask, False, LIKE)
            if NORM:
                even_weight, odd_weight = _pairs(norm_weight + start, inside, EVEN, LIKE)
                even, squares = _normed(even, even_weight, squares, SHIFT)
                odd, squares = _normed(odd, odd_weight, squares, SHIFT)
            here, there = weights + at, blocks + start // 16
            sums = _add_nvfp4(
                sums, here, there, mask, block_mask, even, odd, BLOCK_OUTPUTS, BLOCK_INPUTS, EVEN, ASSEMBLY
            )
            if GATED:
                here, there = here + up * stride, there + up * (inputs // 16)
                ups = _add_nvfp4(
                    ups, here, there, mask, block_mask, even, odd, BLOCK_OUTPUTS, BLOCK_INPUTS, EVEN, ASSEMBLY
                )
        else:
            value = tl.load(x + at, mask=x_mask, other=0.0)
            if NORM:
                value, squares = _normed(value, _load(norm_weight + at, inside, EVEN), squares, SHIFT)
            elif SHIFT != 1.0:
                value = (value.to(tl.float32) * SHIFT).to(LIKE)
            here = scales + start // GROUP if GROUPED else scales
            sums = _add(sums, weights + at, here, mask, value, FORMAT, EVEN, ASSEMBLY)
            if GATED:
                ups = _add(ups, weights + up * stride + at, here + up * groups, mask, value, FORMAT, EVEN, ASSEMBLY)
    if DEPENDENT:
        gdc_launch_dependents()
    if FORMAT == "fp8_groups":
        sums *= SHIFT
        ups *= SHIFT
    elif FORMAT != "dense":
        REST: tl.constexpr = BLOCK_REST if PAIRED else SHIFT
        sums *= (tl.load(scales) * REST)[:, None]
        if GATED:
            ups *= (tl.load(scales + up) * REST)[:, None]
    if NORM:
        root = tl.rsqrt(tl.sum(squares, 0) / inputs + epsilon)[None, :]
        sums *= root
        ups *= root
    if GATED:
        sums = silu(sums) * ups
    live = output_live[:, None] & row_live[None, :]
    target = row[None, :] * width + output[:, None]
    if RESIDUAL:
        sums += tl.load(residual + target, mask=live, other=0.0).to(tl.float32)
    tl.store(y + target, sums.to(LIKE), mask=live)
