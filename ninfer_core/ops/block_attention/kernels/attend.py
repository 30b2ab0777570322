"""A block over its context: the context of a row is cut into splits that are attended at once, the block itself is one
more, and all are combined. How long splits are follows from the row's own context alone."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.attention import LEAST, normed_and_rotated


@triton.jit
def visible_from(length, window, ring):
    """The first position that a column of a block at `length` can see."""
    return tl.maximum(tl.maximum(length - ring, length + 1 - window), 0)


@triton.jit
def split_tokens_of(tokens, SPLITS: tl.constexpr, LEAST_TOKENS: tl.constexpr, TOKENS: tl.constexpr):
    """Of each split of a context: a whole number of tiles of TOKENS."""
    return tl.maximum(tl.cdiv(tl.cdiv(tokens, SPLITS), TOKENS) * TOKENS, LEAST_TOKENS)


@triton.jit
def _taken(query, key, value, visible, scale_log2, peak, total, sums, PRECISION: tl.constexpr):
    """query [queries, HEAD_DIM], key and value [tokens, HEAD_DIM], visible [queries, tokens] -> peak, total and sums
    with the tile taken in."""
    scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale_log2
    scores = tl.where(visible, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    weights = tl.exp2(scores - new_peak[:, None])
    kept = tl.exp2(peak - new_peak)
    total = total * kept + tl.sum(weights, axis=1)
    sums = tl.dot(weights.to(value.dtype), value, sums * kept[:, None], input_precision=PRECISION)
    return new_peak, total, sums


@triton.jit
def attend_splits(
    projected,  # [rows, COLUMNS, QUERY_HEADS + 2 KV_HEADS, HEAD_DIM]
    query_norm,
    key_norm,
    cos,  # [rows, COLUMNS, PAIRS]
    sin,
    keys,  # [slots, KV_HEADS, ring, HEAD_DIM]
    values,
    slot_stride,
    ring,
    slots,
    lengths,
    sums_out,  # float32 [rows, SPLITS + 1, COLUMNS, QUERY_HEADS, HEAD_DIM]
    softmax_out,  # float32 [2, rows, SPLITS + 1, COLUMNS, QUERY_HEADS]: maxima, then totals
    window,
    epsilon,
    scale_log2,
    CAUSAL: tl.constexpr,
    COLUMNS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAIRS: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLIT_TOKENS: tl.constexpr,
    QUERIES: tl.constexpr,  # COLUMNS * GROUP, rounded up to a tile
    OWN: tl.constexpr,  # COLUMNS, rounded up to a tile
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One KV head and one split of a row; the last split is the block."""
    head, split, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    begin = visible_from(length, window, ring)
    split_tokens = split_tokens_of(length - begin, SPLITS, SPLIT_TOKENS, TOKENS)
    begin += split * split_tokens
    if (split < SPLITS) & (begin >= length):
        return
    end = tl.minimum(begin + split_tokens, length)
    heads: tl.constexpr = KV_HEADS * GROUP + 2 * KV_HEADS
    dtype: tl.constexpr = projected.dtype.element_ty

    number = tl.arange(0, QUERIES)
    column = number // GROUP
    wanted = number < COLUMNS * GROUP
    token = row * COLUMNS + column
    query_head = head * GROUP + number % GROUP
    first = projected + (token.to(tl.int64) * heads + query_head) * HEAD_DIM
    query = normed_and_rotated(first, query_norm, cos, sin, token, wanted, epsilon, HEAD_DIM, PAIRS).to(dtype)

    element = tl.arange(0, HEAD_DIM)
    peak = tl.full([QUERIES], LEAST, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, HEAD_DIM], tl.float32)
    if split < SPLITS:
        here = tl.load(slots + row) * slot_stride + head * ring * HEAD_DIM
        for start in tl.range(begin, end, TOKENS, num_stages=STAGES):
            position = start + tl.arange(0, TOKENS)
            inside = position < end
            place = here + (position % ring)[:, None] * HEAD_DIM + element[None, :]
            key = tl.load(keys + place, mask=inside[:, None], other=0.0)
            value = tl.load(values + place, mask=inside[:, None], other=0.0)
            seen = inside[None, :] & (length + column[:, None] - position[None, :] < window)
            peak, total, sums = _taken(query, key, value, seen, scale_log2, peak, total, sums, PRECISION)
    else:
        own = tl.arange(0, OWN)
        meant = own < COLUMNS
        of_block = row * COLUMNS + own
        own_first = projected + (of_block.to(tl.int64) * heads + KV_HEADS * GROUP + head) * HEAD_DIM
        own_key = normed_and_rotated(own_first, key_norm, cos, sin, of_block, meant, epsilon, HEAD_DIM, PAIRS)
        own_place = own_first[:, None] + (KV_HEADS * HEAD_DIM + element)[None, :]
        own_value = tl.load(own_place, mask=meant[:, None], other=0.0)
        own_seen = meant[None, :] & (own[None, :] <= tl.where(CAUSAL, column, COLUMNS)[:, None])
        peak, total, sums = _taken(
            query, own_key.to(dtype), own_value, own_seen, scale_log2, peak, total, sums, PRECISION
        )

    left = ((row * (SPLITS + 1) + split) * COLUMNS + column) * (KV_HEADS * GROUP) + query_head
    tl.store(sums_out + left[:, None] * HEAD_DIM + element[None, :], sums, mask=wanted[:, None])
    half = tl.num_programs(2) * (SPLITS + 1) * COLUMNS * KV_HEADS * GROUP
    tl.store(softmax_out + left, peak, mask=wanted)
    tl.store(softmax_out + half + left, total, mask=wanted)


@triton.jit
def combine(
    sums_in,
    softmax_in,
    lengths,
    out,  # [rows, COLUMNS, QUERY_HEADS * HEAD_DIM]
    window,
    ring,
    COLUMNS: tl.constexpr,
    QUERY_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLIT_TOKENS: tl.constexpr,
    TOKENS: tl.constexpr,
    ALL_SPLITS: tl.constexpr,
):
    """One head of a column: its splits, weighted by what each has seen."""
    head, column, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    tokens = length - visible_from(length, window, ring)
    split = tl.arange(0, ALL_SPLITS)
    used = (split * split_tokens_of(tokens, SPLITS, SPLIT_TOKENS, TOKENS) < tokens) & (split < SPLITS)
    used = used | (split == SPLITS)
    element = tl.arange(0, HEAD_DIM)
    at = ((row * (SPLITS + 1) + split) * COLUMNS + column) * QUERY_HEADS + head
    half = tl.num_programs(2) * (SPLITS + 1) * COLUMNS * QUERY_HEADS
    peak = tl.load(softmax_in + at, mask=used, other=LEAST)
    total = tl.load(softmax_in + half + at, mask=used, other=0.0)
    sums = tl.load(sums_in + at[:, None] * HEAD_DIM + element[None, :], mask=used[:, None], other=0.0)
    weight = tl.exp2(peak - tl.max(peak, axis=0))
    read = tl.sum(sums * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    place = ((row * COLUMNS + column) * QUERY_HEADS + head) * HEAD_DIM + element
    tl.store(out + place, read.to(out.dtype.element_ty))
