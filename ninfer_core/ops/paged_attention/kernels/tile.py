"""Tiles of context against one tile of queries: scores, running softmax, sums.

A part whose codes come in two lanes is multiplied lane by lane: lane j holds the elements j, j + 2, j + 4, ... of the
head. With one lane the second is a copy of the first that nothing reads.
"""

from __future__ import annotations

import triton
import triton.language as tl

SMALLEST: tl.constexpr = tl.constexpr(1.0e-30)
"""Below every row factor that matters, and not zero."""


@triton.jit
def rows_of(page, head, start, KV_HEADS: tl.constexpr, PAGE_TOKENS: tl.constexpr, TOKENS: tl.constexpr):
    """int64 [TOKENS]: where the tile that begins with token `start` lies in the planes."""
    return (page.to(tl.int64) * KV_HEADS + head) * PAGE_TOKENS + start % PAGE_TOKENS + tl.arange(0, TOKENS)


@triton.jit
def lane_of(pointers, lane, HEAD_DIM: tl.constexpr, LANES: tl.constexpr):
    """pointers [queries] to heads -> pointers to one lane, [queries, HEAD_DIM / LANES]."""
    return pointers[:, None] + (tl.arange(0, HEAD_DIM // LANES) * LANES + lane)[None, :]


@triton.jit
def whole_power(factor):
    """factor, a positive float32 -> the least power of two from it on; zero stays zero."""
    bits = factor.to(tl.int32, bitcast=True)
    return ((bits + 0x007FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)


@triton.jit
def tile(
    query0,  # [queries, HEAD_DIM / KEY_LANES] in DTYPE
    query1,
    key_planes,
    value_planes,
    rows,  # int64 [tokens]: of the tile in the planes
    key_factor,  # float32 [tokens], where the codec has row factors
    value_factor,
    seen,  # bool [tokens]: what the last query sees
    visible,  # bool [queries, tokens]
    scale_log2,  # of scores, for powers of two
    peak,  # [queries]
    total,  # [queries]
    sums0,  # [queries, HEAD_DIM / VALUE_LANES], in units of `unit`
    sums1,
    unit,  # the largest row factor of values so far, and up to a power of two: weights are brought to at most 1 before
    # they are rounded. Columns behind a query have a say in it, and a power of two changes none of its roundings
    HEAD_DIM: tl.constexpr,
    DTYPE: tl.constexpr,
    KEY_LOAD: tl.constexpr,
    KEY_SCALE: tl.constexpr,
    KEY_LANES: tl.constexpr,
    VALUE_LOAD: tl.constexpr,
    VALUE_SCALE: tl.constexpr,
    VALUE_LANES: tl.constexpr,
    MASKED: tl.constexpr,
):
    """-> peak, total, sums0, sums1 and unit with the tile taken in. A query that sees nothing of it keeps what its
    sums stand for."""
    key = KEY_LOAD(key_planes, rows, seen, HEAD_DIM, DTYPE)
    if KEY_LANES == 2:
        scores = tl.dot(query1, tl.trans(key[1]), tl.dot(query0, tl.trans(key[0])))
    else:
        scores = tl.dot(query0, tl.trans(key))
    scores = scores * scale_log2
    if KEY_SCALE is not None:
        scores = scores * key_factor[None, :]
    if MASKED:
        scores = tl.where(visible, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    weights = tl.exp2(scores - new_peak[:, None])
    kept = tl.exp2(peak - new_peak)
    total = total * kept + tl.sum(weights, axis=1)
    if VALUE_SCALE is not None:
        new_unit = tl.maximum(unit, whole_power(tl.max(value_factor, axis=0)))
        kept = kept * (unit / new_unit)
        weights = weights * (value_factor / new_unit)[None, :]
        unit = new_unit
    value = VALUE_LOAD(value_planes, rows, seen, HEAD_DIM, DTYPE)
    sums0 = sums0 * kept[:, None]
    if VALUE_LANES == 2:
        sums0 = tl.dot(weights.to(DTYPE), value[0], sums0)
        sums1 = tl.dot(weights.to(DTYPE), value[1], sums1 * kept[:, None])
    else:
        sums0 = tl.dot(weights.to(DTYPE), value, sums0)
        sums1 = sums0
    return new_peak, total, sums0, sums1, unit


@triton.jit
def walk(
    query0,  # as `tile` takes them
    query1,
    key_planes,
    value_planes,
    pages,  # pointer: the row's page numbers
    head,
    begin,  # a whole number of tiles
    end,
    last,  # [queries]: the last token that each sees
    scale_log2,
    peak,
    total,
    sums0,
    sums1,
    unit,
    KV_HEADS: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    TOKENS: tl.constexpr,
    PIPELINE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DTYPE: tl.constexpr,
    KEY_LOAD: tl.constexpr,
    KEY_SCALE: tl.constexpr,
    KEY_LANES: tl.constexpr,
    VALUE_LOAD: tl.constexpr,
    VALUE_SCALE: tl.constexpr,
    VALUE_LANES: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Take in the tokens [begin, end), tile by tile. Not MASKED: every query sees all of them.

    The compiler fetches codes ahead, but neither what their addresses come from nor loads as narrow as row factors:
    page numbers and factors are read one tile ahead by hand. Values may not be handed on over two steps of the loop, or
    nothing would be fetched ahead at all.
    """
    inner = tl.arange(0, TOKENS)
    page = tl.load(pages + begin // PAGE_TOKENS, mask=begin < end, other=0)
    rows = rows_of(page, head, begin, KV_HEADS, PAGE_TOKENS, TOKENS)
    key_factor = tl.zeros([TOKENS], tl.float32)
    value_factor = key_factor
    if KEY_SCALE is not None:
        key_factor = KEY_SCALE(key_planes, rows, begin + inner < end)
    if VALUE_SCALE is not None:
        value_factor = VALUE_SCALE(value_planes, rows, begin + inner < end)
    for start in tl.range(begin, end, TOKENS, num_stages=PIPELINE):
        rows = rows_of(page, head, start, KV_HEADS, PAGE_TOKENS, TOKENS)
        page = tl.load(pages + (start + TOKENS) // PAGE_TOKENS, mask=start + TOKENS < end, other=0)
        following = rows_of(page, head, start + TOKENS, KV_HEADS, PAGE_TOKENS, TOKENS)
        next_key_factor, next_value_factor = key_factor, value_factor
        if KEY_SCALE is not None:
            next_key_factor = KEY_SCALE(key_planes, following, start + TOKENS + inner < end)
        if VALUE_SCALE is not None:
            next_value_factor = VALUE_SCALE(value_planes, following, start + TOKENS + inner < end)
        seen = start + inner < end if MASKED else tl.full([TOKENS], True, tl.int1)
        peak, total, sums0, sums1, unit = tile(
            query0,
            query1,
            key_planes,
            value_planes,
            rows,
            key_factor,
            value_factor,
            seen,
            (start + inner)[None, :] <= last[:, None],
            scale_log2,
            peak,
            total,
            sums0,
            sums1,
            unit,
            HEAD_DIM,
            DTYPE,
            KEY_LOAD,
            KEY_SCALE,
            KEY_LANES,
            VALUE_LOAD,
            VALUE_SCALE,
            VALUE_LANES,
            MASKED,
        )
        key_factor, value_factor = next_key_factor, next_value_factor
    return peak, total, sums0, sums1, unit
