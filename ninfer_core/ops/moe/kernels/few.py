"""The expert layer for few tokens, in three launches that read every weight once.

    route     scores of the router, and beside them the shared expert's gate ‖ up; the last program of the router
              chooses experts and lists them
    inner     gate ‖ up of every listed expert, for the tokens that chose it
    outer     down of every listed expert and of the shared one; the last program of a block of outputs adds up

All tokens are rows of every tile, and those that did not choose the expert are masked: the tile has the shape of the
class, whoever is in it. What a token gets from an expert goes to a place of its own, and is added in its own order.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ninfer_core.ops.moe.kernels.choose import choose, is_last, list_experts
from ninfer_core.ops.moe.kernels.product import gated, gated_rows, product

TILES_COUNTER: tl.constexpr = tl.constexpr(0)
TILE_COUNTERS: tl.constexpr = tl.constexpr(1)
OUTPUT_COUNTERS: tl.constexpr = tl.constexpr(16)
"""Places in `counters`: tiles that have chosen, router programs of each tile, programs of each block of outputs."""


@triton.jit(do_not_specialize=["tokens"])  # one program for every number of tokens
def route_kernel(
    x,
    norm_weight,
    epsilon,
    router,
    shared_gate,
    codes,
    block_scale,
    scale,
    normed,
    scores,
    experts,
    shares,
    openings,
    shared_inner,
    slots,
    counters,
    tokens,
    HIDDEN: tl.constexpr,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
    PAIRS_PADDED: tl.constexpr,
    BLOCK_T: tl.constexpr,
    ROUTER_N: tl.constexpr,
    ROUTER_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    DOT: tl.constexpr,
    PDL: tl.constexpr,
):
    """Grid: (router programs, one for each token, shared programs; tiles of BLOCK_T tokens)."""
    ROUTERS: tl.constexpr = (EXPERTS + ROUTER_N - 1) // ROUTER_N
    program, tile = tl.program_id(0), tl.program_id(1)
    token = tile * BLOCK_T + tl.arange(0, BLOCK_T)
    live = token < tokens
    offsets = token.to(tl.int64) * HIDDEN
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    if program < ROUTERS:
        row = program * ROUTER_N + tl.arange(0, ROUTER_N)
        rows_live = row < EXPERTS
        sums, squares = product(
            x, offsets, live, norm_weight, router, router, router, row.to(tl.int64), rows_live,
            HIDDEN, BLOCK_T, ROUTER_N, ROUTER_K, "dense", True, DOT,
        )  # fmt: skip
        sums = sums * tl.rsqrt(squares / HIDDEN + epsilon)[:, None]
        tl.store(scores + token[:, None] * EXPERTS + row[None, :], sums, mask=live[:, None] & rows_live[None, :])
        if is_last(counters + TILE_COUNTERS + tile, ROUTERS):
            expert = tl.arange(0, EXPERTS_PADDED)
            mask = live[:, None] & (expert < EXPERTS)[None, :]
            place = scores + token[:, None] * EXPERTS + expert[None, :]
            score = tl.load(place, mask=mask, other=0.0, cache_modifier=".cg")
            choose(score, token, live, experts, shares, EXPERTS, EXPERTS_PADDED, TOP_K, BLOCK_T)
            if is_last(counters + TILES_COUNTER, tl.num_programs(1)):
                list_experts(experts, tokens * TOP_K, slots, EXPERTS_PADDED, PAIRS_PADDED)
    elif program < ROUTERS + BLOCK_T:
        index = tile * BLOCK_T + program - ROUTERS
        if index < tokens:
            column = tl.arange(0, HIDDEN_PADDED)
            there = column < HIDDEN
            weight = 1.0 + tl.load(norm_weight + column, mask=there, other=0.0).to(tl.float32)
            gate = tl.load(shared_gate + column, mask=there, other=0.0).to(tl.float32)
            wide = tl.load(x + index * HIDDEN + column, mask=there, other=0.0).to(tl.float32)
            value = wide * tl.rsqrt(tl.sum(wide * wide, 0) / HIDDEN + epsilon) * weight
            value = value.to(normed.dtype.element_ty)
            tl.store(normed + index * HIDDEN + column, value, mask=there)
            opening = tl.sum(value.to(tl.float32) * gate, 0)
            tl.store(openings + index, 1.0 / (1.0 + tl.exp(-opening)))
    else:
        first = (program - ROUTERS - BLOCK_T) * (BLOCK_N // 2)
        rows, rows_live = gated_rows(first, SHARED_WIDTH, BLOCK_N)
        sums, squares = product(
            x, offsets, live, norm_weight, codes, block_scale, scale, rows, rows_live,
            HIDDEN, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, True, DOT,
        )  # fmt: skip
        value = gated(sums * tl.rsqrt(squares / HIDDEN + epsilon)[:, None], BLOCK_T, BLOCK_N)
        output = first + tl.arange(0, BLOCK_N // 2)
        place = shared_inner + token[:, None] * SHARED_WIDTH + output[None, :]
        mask = live[:, None] & (output < SHARED_WIDTH)[None, :]
        tl.store(place, value.to(shared_inner.dtype.element_ty), mask=mask)


@triton.jit
def _pairs(experts, expert, tokens, TOP_K: tl.constexpr, BLOCK_T: tl.constexpr):
    """-> for each token its place in [tokens, TOP_K] where it chose `expert`, or -1."""
    token = tl.arange(0, BLOCK_T)
    pair = tl.full([BLOCK_T], -1, tl.int32)
    for choice in tl.static_range(TOP_K):
        chosen = tl.load(experts + token * TOP_K + choice, mask=token < tokens, other=-1)
        pair = tl.where(chosen == expert, token * TOP_K + choice, pair)
    return pair


@triton.jit(do_not_specialize=["tokens"])  # one program for every number of tokens
def inner_kernel(
    normed,
    codes,
    block_scale,
    scale,
    experts,
    slots,
    inner,
    tokens,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FORMAT: tl.constexpr,
    DOT: tl.constexpr,
    PDL: tl.constexpr,
):
    """Grid: (blocks of BLOCK_N / 2 inner values, as many experts as there may be)."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    slot = tl.program_id(1)
    if slot >= tl.load(slots):
        return
    expert = tl.load(slots + 1 + slot)
    pair = _pairs(experts, expert, tokens, TOP_K, BLOCK_T)
    first = tl.program_id(0) * (BLOCK_N // 2)
    rows, rows_live = gated_rows(first, WIDTH, BLOCK_N)
    sums, _ = product(
        normed, tl.arange(0, BLOCK_T).to(tl.int64) * HIDDEN, pair >= 0, normed, codes, block_scale, scale,
        expert.to(tl.int64) * (2 * WIDTH) + rows, rows_live,
        HIDDEN, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, False, DOT,
    )  # fmt: skip
    value = gated(sums, BLOCK_T, BLOCK_N)
    output = first + tl.arange(0, BLOCK_N // 2)
    mask = (pair >= 0)[:, None] & (output < WIDTH)[None, :]
    place = inner + pair[:, None].to(tl.int64) * WIDTH + output[None, :]
    tl.store(place, value.to(inner.dtype.element_ty), mask=mask)


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
    slots,
    parts,
    residual,
    y,
    counters,
    tokens,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SHARED_K: tl.constexpr,
    BLOCK_SUM: tl.constexpr,
    FORMAT: tl.constexpr,
    SHARED_FORMAT: tl.constexpr,
    DOT: tl.constexpr,
    PDL: tl.constexpr,
):
    """Grid: (blocks of BLOCK_N outputs, the shared expert and as many others as there may be).

    parts [tokens · (TOP_K + 1), HIDDEN] float32: what each token gets from each of its experts, then from the shared
    one."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    slot = tl.program_id(1)
    listed = tl.load(slots)
    if slot > listed:
        return
    block = tl.program_id(0)
    row = block * BLOCK_N + tl.arange(0, BLOCK_N)
    rows_live = row < HIDDEN
    token = tl.arange(0, BLOCK_T)
    if slot == 0:
        sums, _ = product(
            shared_inner, token.to(tl.int64) * SHARED_WIDTH, token < tokens, shared_inner,
            shared_codes, shared_block_scale, shared_scale, row.to(tl.int64), rows_live,
            SHARED_WIDTH, BLOCK_T, BLOCK_N, SHARED_K, SHARED_FORMAT, False, DOT,
        )  # fmt: skip
        place = parts + (tokens * TOP_K + token)[:, None].to(tl.int64) * HIDDEN + row[None, :]
        tl.store(place, sums, mask=(token < tokens)[:, None] & rows_live[None, :])
    else:
        expert = tl.load(slots + slot)
        pair = _pairs(experts, expert, tokens, TOP_K, BLOCK_T)
        sums, _ = product(
            inner, pair.to(tl.int64) * WIDTH, pair >= 0, inner, codes, block_scale, scale,
            expert.to(tl.int64) * HIDDEN + row, rows_live,
            WIDTH, BLOCK_T, BLOCK_N, BLOCK_K, FORMAT, False, DOT,
        )  # fmt: skip
        place = parts + pair[:, None].to(tl.int64) * HIDDEN + row[None, :]
        tl.store(place, sums, mask=(pair >= 0)[:, None] & rows_live[None, :])
    if is_last(counters + OUTPUT_COUNTERS + block, listed + 1):
        _add_up(parts, shares, openings, residual, y, row, rows_live, tokens, HIDDEN, TOP_K, BLOCK_N, BLOCK_SUM)
