"""Keys and values of context columns into their ring."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.attention import normed_and_rotated


@triton.jit(do_not_specialize=["columns", "layers", "first_stride"])
def store_columns(
    stored,  # [rows, columns, layers, 2, KV_HEADS, HEAD_DIM]
    key_norms,  # [layers, HEAD_DIM]
    cos,  # [rows, columns, PAIRS]
    sin,
    keys,  # [layers, slots, KV_HEADS, ring, HEAD_DIM]
    values,
    layer_stride,  # of both
    slot_stride,
    ring,
    slots,
    first,
    first_stride,
    counts,
    columns,
    layers,
    epsilon,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAIRS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """One head of one layer, TOKENS columns of one row."""
    part, row = tl.program_id(0), tl.program_id(2)
    layer, head = part // KV_HEADS, part % KV_HEADS
    column = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    count = tl.load(counts + row).to(tl.int32)
    position = tl.load(first + row * first_stride) + column
    inside = (column < tl.minimum(count, columns)) & (column >= count - ring)  # earlier ones would be written over
    inside = inside & (position >= 0)
    token = row * columns + column
    source = (token.to(tl.int64) * layers + layer) * (2 * KV_HEADS) + head
    element = tl.arange(0, HEAD_DIM)
    of_key = stored + source * HEAD_DIM
    norm = key_norms + layer * HEAD_DIM
    key = normed_and_rotated(of_key, norm, cos, sin, token, inside, epsilon, HEAD_DIM, PAIRS)
    value = tl.load(
        stored + (source + KV_HEADS)[:, None] * HEAD_DIM + element[None, :], mask=inside[:, None], other=0.0
    )
    entry = (tl.maximum(position, 0) % ring).to(tl.int64)
    place = layer.to(tl.int64) * layer_stride + tl.load(slots + row) * slot_stride
    place += (head * ring + entry) * HEAD_DIM
    there = place[:, None] + element[None, :]
    tl.store(keys + there, key.to(keys.dtype.element_ty), mask=inside[:, None])
    tl.store(values + there, value, mask=inside[:, None])
