"""Many columns of few rows: each program has a block of a head's columns and walks the pages that they see."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.hadamard.triton import transformed
from ninfer_core.ops.kernels.attention import LEAST
from ninfer_core.ops.paged_attention.kernels.tile import SMALLEST, lane_of, walk


@triton.jit(do_not_specialize=["columns", "blocks"], do_not_specialize_on_alignment=["block_table", "lengths"])
def attend_chunk(
    query,  # [rows, columns, KV_HEADS * GROUP, HEAD_DIM] in DTYPE
    key_planes,
    value_planes,
    block_table,  # [rows, blocks]
    lengths,  # [rows]
    projected,  # [rows, columns, (2 GROUP + 2) KV_HEADS * HEAD_DIM]: the gates
    out,  # [rows, columns, KV_HEADS * GROUP * HEAD_DIM] in the activation dtype
    columns,
    blocks,
    scale_log2,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    QUERIES: tl.constexpr,
    TOKENS: tl.constexpr,  # of a tile; divides PAGE_TOKENS
    PIPELINE: tl.constexpr,
    DTYPE: tl.constexpr,
    KEY_LOAD: tl.constexpr,
    KEY_SCALE: tl.constexpr,
    KEY_LANES: tl.constexpr,
    VALUE_LOAD: tl.constexpr,
    VALUE_SCALE: tl.constexpr,
    VALUE_LANES: tl.constexpr,
    VALUE_TRANSFORM: tl.constexpr,
    STAGES: tl.constexpr,
    FACTOR: tl.constexpr,
):
    QUERY_HEADS: tl.constexpr = KV_HEADS * GROUP
    # Neighbours share a KV head; the blocks that see most begin first, so that the short ones fill the end.
    head, row = tl.program_id(0), tl.program_id(2)
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    kv_head = head // GROUP
    column = block * QUERIES + tl.arange(0, QUERIES)
    wanted = column < columns
    token = (row * columns + column).to(tl.int64)
    place = (token * QUERY_HEADS + head) * HEAD_DIM
    asked0 = tl.load(lane_of(query + place, 0, HEAD_DIM, KEY_LANES), mask=wanted[:, None], other=0.0)
    asked1 = asked0
    if KEY_LANES == 2:
        asked1 = tl.load(lane_of(query + place, 1, HEAD_DIM, KEY_LANES), mask=wanted[:, None], other=0.0)

    length = tl.load(lengths + row).to(tl.int32)
    everything = length + tl.minimum((block + 1) * QUERIES, columns)
    common = (length + block * QUERIES + 1) // TOKENS * TOKENS  # whole tiles that even the first column sees
    pages = block_table + row * blocks
    peak = tl.full([QUERIES], LEAST, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums0 = tl.zeros([QUERIES, HEAD_DIM // VALUE_LANES], tl.float32)
    sums1 = sums0
    unit = SMALLEST + 0.0
    peak, total, sums0, sums1, unit = walk(
        asked0,
        asked1,
        key_planes,
        value_planes,
        pages,
        kv_head,
        0,
        common,
        length + column,
        scale_log2,
        peak,
        total,
        sums0,
        sums1,
        unit,
        KV_HEADS,
        PAGE_TOKENS,
        TOKENS,
        PIPELINE,
        HEAD_DIM,
        DTYPE,
        KEY_LOAD,
        KEY_SCALE,
        KEY_LANES,
        VALUE_LOAD,
        VALUE_SCALE,
        VALUE_LANES,
        False,
    )
    peak, total, sums0, sums1, unit = walk(
        asked0,
        asked1,
        key_planes,
        value_planes,
        pages,
        kv_head,
        common,
        everything,
        length + column,
        scale_log2,
        peak,
        total,
        sums0,
        sums1,
        unit,
        KV_HEADS,
        PAGE_TOKENS,
        TOKENS,
        PIPELINE,
        HEAD_DIM,
        DTYPE,
        KEY_LOAD,
        KEY_SCALE,
        KEY_LANES,
        VALUE_LOAD,
        VALUE_SCALE,
        VALUE_LANES,
        True,
    )
    if VALUE_SCALE is not None:
        total = total / unit
    gates = projected + token * (2 * (QUERY_HEADS + KV_HEADS) * HEAD_DIM) + (2 * head + 1) * HEAD_DIM
    read = sums0 / total[:, None]
    if VALUE_LANES == 2:
        other = sums1 / total[:, None]
        if VALUE_TRANSFORM:
            read = tl.reshape(tl.join(read, other), (QUERIES, HEAD_DIM))
            read = transformed(read, QUERIES, HEAD_DIM, STAGES, FACTOR)
            read, other = tl.split(tl.reshape(read, (QUERIES, HEAD_DIM // 2, 2)))
        _gated(other, gates, out + place, wanted, 1, HEAD_DIM, VALUE_LANES)
    elif VALUE_TRANSFORM:
        read = transformed(read, QUERIES, HEAD_DIM, STAGES, FACTOR)
    _gated(read, gates, out + place, wanted, 0, HEAD_DIM, VALUE_LANES)


@triton.jit
def _gated(read, gates, out, wanted, lane, HEAD_DIM: tl.constexpr, LANES: tl.constexpr):
    """Store one lane of what was read, times the sigmoid of its gates."""
    gate = tl.load(lane_of(gates, lane, HEAD_DIM, LANES), mask=wanted[:, None], other=0.0).to(tl.float32)
    gated = (read * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(lane_of(out, lane, HEAD_DIM, LANES), gated, mask=wanted[:, None])
