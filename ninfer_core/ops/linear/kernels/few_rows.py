"""A linear map for few rows: every weight is read once, at the rate of the memory.

A program owns some outputs and walks over its inputs in blocks, the loads of the next blocks under way while it
multiplies. Matrix rows are the long side of the dot and rows of x the short one, padded to a class that does not depend
on how many there are. Where too few outputs would leave the memory idle, SPLITS programs share the inputs of a block of
outputs, and the last of them adds up. So a sum is always taken in the same order, whoever else is in the batch.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ninfer_core.ops.linear.kernels.codes import e2m1, e4m3
from ninfer_core.ops.swiglu.triton import silu

E4M3_SHIFT: tl.constexpr = tl.constexpr(2.0**60)
"""Half of `codes.E4M3_UNIT`: x is multiplied with it and the sum again, so that neither leaves the range of float32."""
BLOCK_SHIFT: tl.constexpr = tl.constexpr(2.0**118)
"""A block scale times this and an e2m1 code over E2M1_UNIT are a value · 2**-8; more would overflow bfloat16."""
BLOCK_REST: tl.constexpr = tl.constexpr(2.0**8)
GROUP: tl.constexpr = tl.constexpr(128)
"""Inputs that share a scale in block-scaled fp8."""


@triton.jit
def _load(pointers, mask, EVEN: tl.constexpr):
    """Weights: read once, so that they are the first to leave the cache."""
    if EVEN:
        return tl.load(pointers, eviction_policy="evict_first")
    else:
        return tl.load(pointers, mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit
def _part(words, pointers, mask, PLACE: tl.constexpr, LIKE: tl.constexpr):
    """Every second or fourth value of x, from PLACE on: out of words of 32 or 64 bits where a value has 16, which are
    loaded once for all parts."""
    if tl.float32 == LIKE:
        return tl.load(pointers + PLACE, mask=mask, other=0.0)
    else:
        return ((words >> (16 * PLACE)) & 0xFFFF).to(tl.int16).to(LIKE, bitcast=True)


@triton.jit
def _words(pointers, mask, PARTS: tl.constexpr, LIKE: tl.constexpr):
    if tl.float32 == LIKE:
        return None
    elif PARTS == 2:
        return tl.load(pointers.to(tl.pointer_type(tl.int32)), mask=mask, other=0)
    else:
        return tl.load(pointers.to(tl.pointer_type(tl.int64)), mask=mask, other=0)


@triton.jit
def _block_scales(blocks, mask, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, EVEN: tl.constexpr, LIKE: tl.constexpr):
    """[OUTPUTS, INPUTS / 4] in the dtype of x: one for each word of codes."""
    scale = (_load(blocks, mask, EVEN).to(tl.float32) * BLOCK_SHIFT).to(LIKE)
    return tl.reshape(tl.broadcast_to(scale[:, :, None], (OUTPUTS, INPUTS // 16, 4)), (OUTPUTS, INPUTS // 4))


@triton.jit
def _prefetch(rows, BYTES: tl.constexpr, OUTPUTS: tl.constexpr, THREADS: tl.constexpr):
    """Ask for the first BYTES of every row of weights, each thread for some: they are on their way into the cache
    while the launch before this one ends."""
    CHUNKS: tl.constexpr = THREADS // OUTPUTS if THREADS > OUTPUTS else 1
    chunk = tl.arange(0, CHUNKS) * (BYTES // CHUNKS)
    start = rows.to(tl.pointer_type(tl.uint8))[:, None] + chunk[None, :]
    size = tl.full((OUTPUTS, CHUNKS), BYTES // CHUNKS, tl.int32)
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.b32 $0, 0;",
        "=r,l,r",
        [start, size],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _finish(
    sums, ups, target, residual, y, live, root, NORM: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr
):
    """What follows the sums, rounded once."""
    if NORM:
        sums *= root[None, :]
        ups *= root[None, :]
    if GATED:
        sums = silu(sums) * ups
    if RESIDUAL:
        sums += tl.load(residual + target, mask=live, other=0.0).to(tl.float32)
    tl.store(y + target, sums.to(y.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["rows"])
def few_rows(
    x,
    weight,
    block_scale,
    scale,
    norm_weight,
    residual,
    y,
    partial,
    counters,
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
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    AHEAD: tl.constexpr,
    THREADS: tl.constexpr,
    ASSEMBLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """x [rows, inputs] -> y [rows, outputs], or half as many outputs where GATED. Grid: (blocks of results, SPLITS).

    FORMAT is "dense", "fp8" (a scale a row), "fp8_groups" (INPUTS is GROUP) or "nvfp4"; weight and scales as in
    `linear.matrix`, codes as 16-bit words. A NORM is for dense weights, and neither a NORM nor GATED for SPLITS.
    partial [blocks, SPLITS, OUTPUTS, ROWS] float32; counters [blocks] int32, zero before and after. EVEN: INPUTS
    divides `inputs`. ROWS, a power of two, is `rows` or more. AHEAD bytes of every row are asked for early.
    """
    PARTS: tl.constexpr = 4 if FORMAT == "nvfp4" else (1 if FORMAT == "dense" else 2)  # codes in an element of `weight`
    GROUPED: tl.constexpr = FORMAT == "fp8_groups"
    WALK: tl.constexpr = INPUTS // PARTS
    LIKE: tl.constexpr = x.dtype.element_ty
    width = outputs // 2 if GATED else outputs
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    output_live = output < width
    output = tl.where(output_live, output, width - 1)
    row = tl.arange(0, ROWS)
    row_live = row < rows
    place = tl.arange(0, WALK)
    stride = inputs // PARTS
    blocks_each = tl.cdiv(tl.cdiv(inputs, INPUTS), SPLITS)
    begin = tl.program_id(1) * blocks_each * INPUTS
    end = tl.minimum(begin + blocks_each * INPUTS, inputs)
    up = width.to(tl.int64)
    weights = weight + output.to(tl.int64) * stride
    if AHEAD > 0:
        _prefetch(weights + begin // PARTS, AHEAD, OUTPUTS, THREADS)
        if GATED:
            _prefetch(weights + up * stride, AHEAD, OUTPUTS, THREADS)
    weights = weights[:, None] + place[None, :]
    groups = (inputs + GROUP - 1) // GROUP if GROUPED else 1
    scales = scale + output.to(tl.int64) * groups
    block = tl.arange(0, INPUTS // 16)
    blocks = block_scale + output.to(tl.int64)[:, None] * (inputs // 16) + block[None, :]
    x += row[None, :] * inputs + PARTS * place[:, None]
    sums = tl.zeros((OUTPUTS, ROWS), tl.float32)
    ups = tl.zeros((OUTPUTS, ROWS), tl.float32)
    squares = tl.zeros((WALK, ROWS), tl.float32)
    if DEPENDENT:
        gdc_wait()
    for start in tl.range(begin, end, INPUTS, num_stages=STAGES):
        at = start // PARTS
        inside = place < stride - at
        mask = inside[None, :]
        x_mask = row_live[None, :] if EVEN else row_live[None, :] & inside[:, None]
        code = _load(weights + at, mask, EVEN)
        if GATED:
            up_code = _load(weights + up * stride + at, mask, EVEN)
        if FORMAT == "dense":
            value = tl.load(x + start, mask=x_mask, other=0.0)
            if NORM:
                wide = value.to(tl.float32)
                squares += wide * wide
                factor = tl.load(norm_weight + start + place, mask=inside, other=0.0).to(tl.float32) + 1.0
                value = (wide * factor[:, None]).to(LIKE)
            sums = tl.dot(code, value, sums, input_precision="ieee")
            if GATED:
                ups = tl.dot(up_code, value, ups, input_precision="ieee")
        elif FORMAT == "nvfp4":
            words = _words(x + start, x_mask, PARTS, LIKE)
            block_mask = (block < (inputs - start) // 16)[None, :]
            factor = _block_scales(blocks + start // 16, block_mask, OUTPUTS, INPUTS, EVEN, LIKE)
            if GATED:
                beyond = blocks + up * (inputs // 16) + start // 16
                up_factor = _block_scales(beyond, block_mask, OUTPUTS, INPUTS, EVEN, LIKE)
            for part in tl.static_range(PARTS):
                value = _part(words, x + start, x_mask, part, LIKE)
                sums = tl.dot(e2m1(code, part, ASSEMBLY) * factor, value, sums, input_precision="ieee")
                if GATED:
                    ups = tl.dot(e2m1(up_code, part, ASSEMBLY) * up_factor, value, ups, input_precision="ieee")
        else:
            words = _words(x + start, x_mask, PARTS, LIKE)
            added = tl.zeros((OUTPUTS, ROWS), tl.float32) if GROUPED else sums
            up_added = tl.zeros((OUTPUTS, ROWS), tl.float32) if GROUPED else ups
            for part in tl.static_range(PARTS):
                value = _part(words, x + start, x_mask, part, LIKE) * tl.full((1, 1), E4M3_SHIFT, LIKE)
                added = tl.dot(e4m3(code, part, ASSEMBLY), value, added, input_precision="ieee")
                if GATED:
                    up_added = tl.dot(e4m3(up_code, part, ASSEMBLY), value, up_added, input_precision="ieee")
            if GROUPED:
                sums += added * tl.load(scales + start // GROUP)[:, None]
                if GATED:
                    ups += up_added * tl.load(scales + up * groups + start // GROUP)[:, None]
            else:
                sums = added
                ups = up_added
    if DEPENDENT:
        gdc_launch_dependents()
    if FORMAT == "fp8_groups":
        sums *= E4M3_SHIFT
        ups *= E4M3_SHIFT
    elif FORMAT != "dense":
        REST: tl.constexpr = BLOCK_REST if FORMAT == "nvfp4" else E4M3_SHIFT
        sums *= (tl.load(scales) * REST)[:, None]
        if GATED:
            ups *= (tl.load(scales + up) * REST)[:, None]
    root = tl.rsqrt(tl.sum(squares, 0) / inputs + epsilon)
    live = output_live[:, None] & row_live[None, :]
    target = row[None, :] * width + output[:, None]
    if SPLITS == 1:
        _finish(sums, ups, target, residual, y, live, root, NORM, GATED, RESIDUAL)
    else:
        mine = partial + tl.program_id(0).to(tl.int64) * SPLITS * OUTPUTS * ROWS
        mine += tl.arange(0, OUTPUTS)[:, None] * ROWS + row[None, :]
        tl.store(mine + tl.program_id(1) * OUTPUTS * ROWS, sums)
        tl.debug_barrier()  # all of it is written before the program says so
        if tl.atomic_add(counters + tl.program_id(0), 1) == SPLITS - 1:
            total = tl.zeros((OUTPUTS, ROWS), tl.float32)
            for split in tl.static_range(SPLITS):
                # Written by other programs of this launch: not to be found in the cache of this multiprocessor.
                total += tl.load(mine + split * OUTPUTS * ROWS, cache_modifier=".cg")
            tl.store(counters + tl.program_id(0), 0)
            _finish(total, ups, target, residual, y, live, root, NORM, GATED, RESIDUAL)
