"""The expert layer for many tokens: sort the pairs of token and expert by expert, multiply group by group, add up.

Where a pair stands within its group is decided by who comes first, and may differ from run to run; what is computed
for it does not depend on that, since every row of a tile is a sum of its own.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.moe.kernels.choose import choose, is_last, prepare
from ninfer_core.ops.moe.kernels.product import gated, gated_rows, product, to_codes


@triton.jit
def prepare_kernel(
    x,
    norm_weight,
    epsilon,
    shared_gate,
    normed,
    codes,
    scales,
    openings,
    HIDDEN: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
    CODED: tl.constexpr,
):
    """The normed token, if CODED also in codes, and how far the gate of the shared expert is open. Grid: (tokens,)."""
    token = tl.program_id(0).to(tl.int64)
    value = prepare(x, norm_weight, epsilon, shared_gate, normed, openings, token, HIDDEN, HIDDEN_PADDED)
    if CODED:
        code, scale = to_codes(value.to(tl.float32)[None, :], codes.dtype.element_ty)
        column = tl.arange(0, HIDDEN_PADDED)
        tl.store(codes + token * HIDDEN + column[None, :], code, mask=(column < HIDDEN)[None, :])
        tl.store(scales + token + tl.arange(0, 1), scale)


@triton.jit(do_not_specialize=["tokens"])
def choose_kernel(
    scores,
    experts,
    shares,
    ranks,
    offsets,
    arrived,
    counts,
    tokens,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """Choose, and count the pairs of each expert. Grid: (blocks of BLOCK_T tokens,).

    ranks [tokens, TOP_K] are the places of the pairs within their groups, offsets [EXPERTS + 1] where the groups
    start. `arrived` and `counts` [EXPERTS] are zero before and after."""
    token = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    chosen, places, mask = choose(
        scores, token, token < tokens, experts, shares, EXPERTS, EXPERTS_PADDED, TOP_K, BLOCK_T
    )  # fmt: skip
    rank = tl.atomic_add(counts + chosen, 1, mask=mask, sem="relaxed")
    tl.store(ranks + places, rank, mask=mask)
    if is_last(arrived, tl.num_programs(0)):
        expert = tl.arange(0, EXPERTS_PADDED)
        count = tl.load(counts + expert, mask=expert < EXPERTS, other=0, cache_modifier=".cg")
        tl.store(offsets + 1 + expert, tl.cumsum(count, 0), mask=expert < EXPERTS)
        tl.store(offsets, 0)
        tl.store(counts + expert, 0, mask=expert < EXPERTS)


@triton.jit(do_not_specialize=["pairs"])
def order_kernel(experts, ranks, offsets, order, pairs, BLOCK: tl.constexpr):
    """order [pairs]: the pairs, those of an expert behind each other. Grid: (blocks of BLOCK pairs,)."""
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = pair < pairs
    expert = tl.load(experts + pair, mask=live, other=0)
    place = tl.load(offsets + expert, mask=live, other=0) + tl.load(ranks + pair, mask=live, other=0)
    tl.store(order + place, pair, mask=live)


@triton.jit
def _group(offsets, tile, EXPERTS: tl.constexpr, EXPERTS_PADDED: tl.constexpr, BLOCK_T: tl.constexpr):
    """-> the expert that row tile `tile` belongs to, or one past the last; its first row, and the end of its group."""
    expert = tl.arange(0, EXPERTS_PADDED)
    begin = tl.load(offsets + expert, mask=expert < EXPERTS, other=0)
    end = tl.load(offsets + expert + 1, mask=expert < EXPERTS, other=0)
    tiles = (end - begin + BLOCK_T - 1) // BLOCK_T
    upto = tl.cumsum(tiles, 0)
    ours = tl.sum((upto <= tile).to(tl.int32), 0)
    here = expert == ours
    first = tl.sum(tl.where(here, begin + (tile - upto + tiles) * BLOCK_T, 0), 0)
    return ours, first, tl.sum(tl.where(here, end, 0), 0)


@triton.jit
def grouped_inner_kernel(
    x,
    x_scale,
    codes,
    block_scale,
    scale,
    order,
    offsets,
    inner,
    inner_scale,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    X_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
):
    """inner [pairs, WIDTH], in the order of `order`, from the normed tokens x. If x is in codes, so is inner, with a
    scale for each row and program. Grid: (blocks of BLOCK_N / 2 values, row tiles at most)."""
    expert, start, end = _group(offsets, tl.program_id(1), EXPERTS, EXPERTS_PADDED, BLOCK_T)
    if expert >= EXPERTS:
        return
    place = start + tl.arange(0, BLOCK_T)
    live = place < end
    token = tl.load(order + place, mask=live, other=0) // TOP_K
    first = tl.program_id(0) * (BLOCK_N // 2)
    rows, rows_live = gated_rows(first, WIDTH, BLOCK_N)
    sums = product(
        x, x_scale, token.to(tl.int64), live, codes, block_scale, scale,
        expert.to(tl.int64) * (2 * WIDTH) + rows, rows_live,
        HIDDEN, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, X_FORMAT, DOT,
    )  # fmt: skip
    value = gated(sums, BLOCK_T, BLOCK_N)
    if X_FORMAT == "fp8":
        value, group_scale = to_codes(value, inner.dtype.element_ty)
        tl.store(inner_scale + place * tl.num_programs(0) + tl.program_id(0), group_scale, mask=live)
    output = first + tl.arange(0, BLOCK_N // 2)
    mask = live[:, None] & (output < WIDTH)[None, :]
    tl.store(inner + place[:, None].to(tl.int64) * WIDTH + output[None, :], value.to(inner.dtype.element_ty), mask=mask)


@triton.jit
def grouped_outer_kernel(
    inner,
    inner_scale,
    codes,
    block_scale,
    scale,
    order,
    offsets,
    parts,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    X_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
):
    """parts [tokens, TOP_K, HIDDEN]: what each token gets from each of its experts.

    Grid: (blocks of BLOCK_N outputs, row tiles at most)."""
    expert, start, end = _group(offsets, tl.program_id(1), EXPERTS, EXPERTS_PADDED, BLOCK_T)
    if expert >= EXPERTS:
        return
    place = start + tl.arange(0, BLOCK_T)
    live = place < end
    row = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = product(
        inner, inner_scale, place.to(tl.int64), live, codes, block_scale, scale,
        expert.to(tl.int64) * HIDDEN + row, row < HIDDEN,
        WIDTH, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, X_FORMAT, DOT,
    )  # fmt: skip
    pair = tl.load(order + place, mask=live, other=0).to(tl.int64)
    mask = live[:, None] & (row < HIDDEN)[None, :]
    tl.store(parts + pair[:, None] * HIDDEN + row[None, :], sums.to(parts.dtype.element_ty), mask=mask)


@triton.jit
def combine_kernel(
    parts,
    shares,
    shared,
    openings,
    residual,
    y,
    HIDDEN: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
):
    """y = residual + the weighted parts, in the order of the choices, the shared expert's last. Grid: (tokens,)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, HIDDEN_PADDED)
    there = column < HIDDEN
    total = tl.zeros([HIDDEN_PADDED], tl.float32)
    for choice in tl.static_range(TOP_K):
        part = tl.load(parts + (token * TOP_K + choice) * HIDDEN + column, mask=there, other=0.0)
        total += tl.load(shares + token * TOP_K + choice) * part.to(tl.float32)
    place = token * HIDDEN + column
    total += tl.load(openings + token) * tl.load(shared + place, mask=there, other=0.0).to(tl.float32)
    total += tl.load(residual + place, mask=there, other=0.0).to(tl.float32)
    tl.store(y + place, total.to(y.dtype.element_ty), mask=there)
