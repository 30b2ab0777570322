"""Few columns in each of several rows: the context of a row is cut into splits that are attended at once and combined.

How many splits there can be is a constant; how long they are follows from the row's own length, so a row's numbers are
the same whatever else is in the batch. Splits behind the end of a short row stop at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.hadamard.triton import transformed
from ninfer_core.ops.kernels.attention import LEAST
from ninfer_core.ops.kernels.dependent import follow
from ninfer_core.ops.paged_attention.kernels.tile import SMALLEST, lane_of, walk


@triton.jit
def split_tokens_of(context, SPLITS: tl.constexpr, STEP: tl.constexpr):
    """Tokens of each split of a row with `context` tokens: a multiple of STEP."""
    return tl.cdiv(tl.cdiv(context, SPLITS), STEP) * STEP


@triton.jit(do_not_specialize=["blocks"], do_not_specialize_on_alignment=["block_table", "lengths"])
def attend_splits(
    query,  # [rows, COLUMNS, KV_HEADS * GROUP, HEAD_DIM] in DTYPE
    key_planes,
    value_planes,
    block_table,  # [rows, blocks]
    lengths,  # [rows]
    sums_out,  # float32 [rows, SPLITS, COLUMNS, KV_HEADS * GROUP, HEAD_DIM]
    softmax_out,  # float32 [2, rows, SPLITS, COLUMNS, KV_HEADS * GROUP]: maxima, then totals
    blocks,
    scale_log2,
    COLUMNS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    SPLITS: tl.constexpr,
    QUERIES: tl.constexpr,  # COLUMNS * GROUP, rounded up to a tile
    TOKENS: tl.constexpr,  # of a tile; divides PAGE_TOKENS
    STAGES: tl.constexpr,
    DTYPE: tl.constexpr,
    KEY_LOAD: tl.constexpr,
    KEY_SCALE: tl.constexpr,
    KEY_LANES: tl.constexpr,
    VALUE_LOAD: tl.constexpr,
    VALUE_SCALE: tl.constexpr,
    VALUE_LANES: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    head, split, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row, cache_modifier=".cg").to(tl.int32)
    context = length + COLUMNS
    split_tokens = split_tokens_of(context, SPLITS, PAGE_TOKENS)
    begin = split * split_tokens
    if begin >= context:
        return
    end = tl.minimum(begin + split_tokens, context)
    follow(DEPENDENT)  # lengths are older than the launch ahead; it makes queries and stores the last tokens

    number = tl.arange(0, QUERIES)
    column = number // GROUP
    wanted = number < COLUMNS * GROUP
    place = (row * COLUMNS + column) * (KV_HEADS * GROUP) + head * GROUP + number % GROUP
    heads = query + place * HEAD_DIM
    asked0 = tl.load(lane_of(heads, 0, HEAD_DIM, KEY_LANES), mask=wanted[:, None], other=0.0)
    asked1 = asked0
    if KEY_LANES == 2:
        asked1 = tl.load(lane_of(heads, 1, HEAD_DIM, KEY_LANES), mask=wanted[:, None], other=0.0)

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
        block_table + row * blocks,
        head,
        begin,
        end,
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
        STAGES,
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
    left = (row * SPLITS + split) * (COLUMNS * KV_HEADS * GROUP) + place - row * (COLUMNS * KV_HEADS * GROUP)
    if VALUE_SCALE is not None:
        sums0 = sums0 * unit
        sums1 = sums1 * unit
    heads_out = sums_out + left * HEAD_DIM
    tl.store(lane_of(heads_out, 0, HEAD_DIM, VALUE_LANES), sums0, mask=wanted[:, None])
    if VALUE_LANES == 2:
        tl.store(lane_of(heads_out, 1, HEAD_DIM, VALUE_LANES), sums1, mask=wanted[:, None])
    half = tl.num_programs(2) * SPLITS * COLUMNS * KV_HEADS * GROUP
    tl.store(softmax_out + left, peak, mask=wanted)
    tl.store(softmax_out + half + left, total, mask=wanted)


@triton.jit(do_not_specialize_on_alignment=["lengths"])
def combine(
    sums_in,  # as attend_splits left them
    softmax_in,
    projected,  # [rows, COLUMNS, (2 QUERY_HEADS + 2 KV_HEADS) HEAD_DIM]: the gates
    lengths,  # [rows]
    out,  # [rows, COLUMNS, QUERY_HEADS * HEAD_DIM] in the activation dtype
    COLUMNS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    QUERY_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    SPLITS: tl.constexpr,
    VALUE_TRANSFORM: tl.constexpr,
    STAGES: tl.constexpr,
    FACTOR: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """One program for a head of a column: its splits, weighted by what each has seen, then transform and gate."""
    head, column, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    context = tl.load(lengths + row, cache_modifier=".cg").to(tl.int32) + COLUMNS
    split_tokens = split_tokens_of(context, SPLITS, PAGE_TOKENS)
    split = tl.arange(0, SPLITS)
    used = split * split_tokens < context
    element = tl.arange(0, HEAD_DIM)

    follow(DEPENDENT)
    at = ((row * SPLITS + split) * COLUMNS + column) * QUERY_HEADS + head
    half = tl.num_programs(2) * SPLITS * COLUMNS * QUERY_HEADS
    peak = tl.load(softmax_in + at, mask=used, other=LEAST)
    total = tl.load(softmax_in + half + at, mask=used, other=0.0)
    sums = tl.load(sums_in + at[:, None] * HEAD_DIM + element[None, :], mask=used[:, None], other=0.0)
    weight = tl.exp2(peak - tl.max(peak, axis=0))
    read = tl.sum(sums * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    if VALUE_TRANSFORM:
        read = tl.reshape(transformed(read[None, :], 1, HEAD_DIM, STAGES, FACTOR), (HEAD_DIM,))
    token = row * COLUMNS + column
    gate = tl.load(projected + token * (2 * (QUERY_HEADS + KV_HEADS) * HEAD_DIM) + (2 * head + 1) * HEAD_DIM + element)
    gated = read * tl.sigmoid(gate.to(tl.float32))
    tl.store(out + (token * QUERY_HEADS + head) * HEAD_DIM + element, gated.to(out.dtype.element_ty))
