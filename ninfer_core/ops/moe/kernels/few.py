"""The expert layer for few tokens, in three launches that read every weight once.

    route     scores of the router, from which the last program of a few tokens chooses their experts; the norm
    inner     gate ‖ up of the shared expert, and of every chosen one for the tokens that chose it
    outer     down of the same; the last program of a block of outputs adds up

All tokens are rows of every tile, and those that did not choose the expert are masked: the tile has the shape of the
class, whoever is in it. What a token gets from an expert goes to a place of its own, and is added in its own order.

DEPENDENT: see `ops.kernels.dependent`; until they wait, launches read weights only. (Bringing weights of the next
launch into the cache of the device as well cost more than it gained: 28.0 us for 27.0, one token, H200.)
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.dependent import follow, let_next_begin, wait_for_launches
from ninfer_core.ops.moe.kernels.choose import choose, is_last, prepare
from ninfer_core.ops.moe.kernels.product import gated, gated_rows, product

OUTPUT_COUNTERS: tl.constexpr = tl.constexpr(128)
"""Places in `counters`: router programs of each tile of tokens, programs of each block of outputs."""


@triton.jit
def _score_tokens(
    x,
    norm_weight,
    epsilon,
    router,
    scores,
    row,
    first,
    last,
    HIDDEN: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
    EXPERTS: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Scores of the experts `row` for the tokens from `first` to before `last`: the rows stay in registers, and the
    next token is on its way while one is multiplied."""
    column = tl.arange(0, HIDDEN_PADDED)
    there = column < HIDDEN
    mask = (row < EXPERTS)[:, None] & there[None, :]
    matrix = tl.load(router + row[:, None] * HIDDEN + column[None, :], mask=mask, other=0.0)
    weight = 1.0 + tl.load(norm_weight + column, mask=there, other=0.0).to(tl.float32)
    wait_for_launches(DEPENDENT)
    following = tl.load(x + first * HIDDEN + column, mask=there, other=0.0)
    for index in range(first, last):
        wide = following.to(tl.float32)
        following = tl.load(x + tl.minimum(index + 1, last - 1) * HIDDEN + column, mask=there, other=0.0)
        score = tl.sum(matrix.to(tl.float32) * (wide * weight)[None, :], 1)
        score = score * tl.rsqrt(tl.sum(wide * wide, 0) / HIDDEN + epsilon)
        tl.store(scores + index * EXPERTS + row, score, mask=row < EXPERTS)


@triton.jit(do_not_specialize=["tokens"])  # one program for every number of tokens
def route_kernel(
    x,
    norm_weight,
    epsilon,
    router,
    shared_gate,
    normed,
    scores,
    experts,
    shares,
    openings,
    counters,
    tokens,
    HIDDEN: tl.constexpr,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CHOOSE_T: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid: (router programs, then one for each token; tiles of BLOCK_T tokens)."""
    ROUTERS: tl.constexpr = (EXPERTS + BLOCK_N - 1) // BLOCK_N
    let_next_begin(DEPENDENT)
    program, tile = tl.program_id(0), tl.program_id(1)
    first = tile * BLOCK_T
    last = tl.minimum(first + BLOCK_T, tokens)
    if program < ROUTERS:
        row = program * BLOCK_N + tl.arange(0, BLOCK_N)
        _score_tokens(
            x, norm_weight, epsilon, router, scores, row, first, last, HIDDEN, HIDDEN_PADDED, EXPERTS, DEPENDENT
        )
        if is_last(counters + tile, ROUTERS):
            for start in range(first, last, CHOOSE_T):
                token = start + tl.arange(0, CHOOSE_T)
                choose(scores, token, token < last, experts, shares, EXPERTS, EXPERTS_PADDED, TOP_K, CHOOSE_T)
    else:
        wait_for_launches(DEPENDENT)
        index = first + program - ROUTERS
        if index < tokens:
            prepare(x, norm_weight, epsilon, shared_gate, normed, openings, index, HIDDEN, HIDDEN_PADDED)


@triton.jit
def _members(experts, slot, tokens, TOP_K: tl.constexpr, BLOCK_T: tl.constexpr, BY_EXPERT: tl.constexpr):
    """-> the expert of a slot; for each token its place in [tokens, TOP_K] where it chose that expert, or -1; whether
    the slot has anything to do.

    Slots are experts, or, where pairs of token and expert are fewer, pairs, of which the first does the work."""
    NOWHERE: tl.constexpr = 1 << 30
    TOP_PADDED: tl.constexpr = triton.next_power_of_2(TOP_K)
    expert = slot if BY_EXPERT else tl.load(experts + slot)
    token = tl.arange(0, BLOCK_T)
    choice = tl.arange(0, TOP_PADDED)
    place = token[:, None] * TOP_K + choice[None, :]
    mask = (token < tokens)[:, None] & (choice < TOP_K)[None, :]
    here = tl.load(experts + place, mask=mask, other=-1) == expert
    pair = tl.max(tl.where(here, place, -1), 1)
    earliest = tl.min(tl.where(pair >= 0, pair, NOWHERE), 0)
    working = earliest < NOWHERE if BY_EXPERT else earliest == slot
    return expert, pair, working


@triton.jit
def _inner_values(
    normed,
    codes,
    block_scale,
    scale,
    inner,
    before,
    place,
    live,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    DOT: tl.constexpr,
):
    """The values of one expert, whose matrix has `before` rows ahead of it, to the rows `place` of `inner`."""
    first = tl.program_id(0) * (BLOCK_N // 2)
    rows, rows_live = gated_rows(first, WIDTH, BLOCK_N)
    sums = product(
        normed, normed, tl.arange(0, BLOCK_T).to(tl.int64), live, codes, block_scale, scale,
        before + rows, rows_live, HIDDEN, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, "dense", DOT,
    )  # fmt: skip
    output = first + tl.arange(0, BLOCK_N // 2)
    mask = live[:, None] & (output < WIDTH)[None, :]
    value = gated(sums, BLOCK_T, BLOCK_N).to(inner.dtype.element_ty)
    tl.store(inner + place[:, None].to(tl.int64) * WIDTH + output[None, :], value, mask=mask)


@triton.jit(do_not_specialize=["tokens"])  # one program for every number of tokens
def inner_kernel(
    normed,
    codes,
    block_scale,
    scale,
    shared_codes,
    shared_block_scale,
    shared_scale,
    experts,
    inner,
    shared_inner,
    tokens,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    BY_EXPERT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SHARED_K: tl.constexpr,
    FORMAT: tl.constexpr,
    SHARED_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid: (blocks of BLOCK_N / 2 inner values of the wider kind of expert; the shared expert, then the slots)."""
    follow(DEPENDENT)
    slot = tl.program_id(1) - 1
    first = tl.program_id(0) * (BLOCK_N // 2)
    if slot < 0:
        if first < SHARED_WIDTH:
            token = tl.arange(0, BLOCK_T)
            _inner_values(
                normed, shared_codes, shared_block_scale, shared_scale, shared_inner, 0, token, token < tokens,
                HIDDEN, SHARED_WIDTH, BLOCK_T, BLOCK_N, SHARED_K, SHARED_FORMAT, DOT,
            )  # fmt: skip
    elif first < WIDTH:
        expert, pair, working = _members(experts, slot, tokens, TOP_K, BLOCK_T, BY_EXPERT)
        if working:
            _inner_values(
                normed, codes, block_scale, scale, inner, expert.to(tl.int64) * (2 * WIDTH), pair, pair >= 0,
                HIDDEN, WIDTH, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, DOT,
            )  # fmt: skip


@triton.jit
def _add_up(
    parts,
    shares,
    openings,
    residual,
    y,
    row,
    rows_live,
    tokens,
    HIDDEN: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_SUM: tl.constexpr,
):
    """y = residual + the weighted parts of every token, in the order of its choices, the shared expert's last.

    `parts` are read past the cache of the multiprocessor, for other programs of this launch wrote them."""
    for start in range(0, tokens, BLOCK_SUM):
        token = start + tl.arange(0, BLOCK_SUM)
        live = token < tokens
        mask = live[:, None] & rows_live[None, :]
        total = tl.zeros([BLOCK_SUM, BLOCK_N], tl.float32)
        for choice in tl.static_range(TOP_K):
            share = tl.load(shares + token * TOP_K + choice, mask=live, other=0.0)
            part = parts + (token * TOP_K + choice)[:, None] * HIDDEN + row[None, :]
            total += share[:, None] * tl.load(part, mask=mask, other=0.0, cache_modifier=".cg")
        opening = tl.load(openings + token, mask=live, other=0.0)
        part = parts + (tokens * TOP_K + token)[:, None] * HIDDEN + row[None, :]
        total += opening[:, None] * tl.load(part, mask=mask, other=0.0, cache_modifier=".cg")
        place = token[:, None] * HIDDEN + row[None, :]
        total += tl.load(residual + place, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + place, total.to(y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["tokens"])  # one program for every number of tokens
def outer_kernel(
    inner,
    codes,
    block_scale,
    scale,
    shared_inner,
    shared_codes,
    shared_block_scale,
    shared_scale,
    experts,
    shares,
    openings,
    parts,
    residual,
    y,
    counters,
    tokens,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    BY_EXPERT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SHARED_K: tl.constexpr,
    BLOCK_SUM: tl.constexpr,
    FORMAT: tl.constexpr,
    SHARED_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid: (blocks of BLOCK_N outputs, the shared expert and the slots).

    parts [tokens · (TOP_K + 1), HIDDEN] float32: what each token gets from each of its experts, then from the shared
    one."""
    let_next_begin(DEPENDENT)
    wait_for_launches(DEPENDENT)
    block, slot = tl.program_id(0), tl.program_id(1) - 1
    row = block * BLOCK_N + tl.arange(0, BLOCK_N)
    rows_live = row < HIDDEN
    token = tl.arange(0, BLOCK_T)
    if slot < 0:
        sums = product(
            shared_inner, shared_inner, token.to(tl.int64), token < tokens,
            shared_codes, shared_block_scale, shared_scale, row.to(tl.int64), rows_live,
            SHARED_WIDTH, BLOCK_T, BLOCK_N, SHARED_K, SHARED_FORMAT, "dense", DOT,
        )  # fmt: skip
        place = parts + (tokens * TOP_K + token)[:, None].to(tl.int64) * HIDDEN + row[None, :]
        tl.store(place, sums, mask=(token < tokens)[:, None] & rows_live[None, :])
    else:
        expert, pair, working = _members(experts, slot, tokens, TOP_K, BLOCK_T, BY_EXPERT)
        if working:
            rows = expert.to(tl.int64) * HIDDEN + row
            sums = product(
                inner, inner, pair.to(tl.int64), pair >= 0, codes, block_scale, scale, rows, rows_live,
                WIDTH, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, "dense", DOT,
            )  # fmt: skip
            place = parts + pair[:, None].to(tl.int64) * HIDDEN + row[None, :]
            tl.store(place, sums, mask=(pair >= 0)[:, None] & rows_live[None, :])
    if is_last(counters + OUTPUT_COUNTERS + block, tl.num_programs(1)):
        _add_up(parts, shares, openings, residual, y, row, rows_live, tokens, HIDDEN, TOP_K, BLOCK_N, BLOCK_SUM)
