"""The experts of very few tokens: every pair of token and expert for itself, in two launches.

    inner     gate ‖ up of every pair, and of the shared expert for every token
    outer     down of the same; a program adds up some outputs of a token

A weight is multiplied where it was loaded, in registers: with a row for each matrix there is nothing that a tensor core
would save. A token's numbers need nothing of other tokens. Two tokens with the same expert run side by side, so that
the second one finds its weights in the cache of the device.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import silu
from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches


@triton.jit
def inner_pairs(
    normed,
    weights,
    shared_weights,
    experts,
    shares,
    openings,
    inner,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    EARLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """inner [tokens, TOP_K + 1, widest] float32: the values of each pair times its share, then those of the shared
    expert times its opening. Grid: (tokens · (TOP_K + 1), blocks of BLOCK_N values).

    EARLY: the next launch fetches its weights beside this one's. That is for programs that leave memory time for it."""
    WIDEST: tl.constexpr = max(WIDTH, SHARED_WIDTH)
    slot = tl.program_id(0)
    token = slot // (TOP_K + 1)
    choice = slot % (TOP_K + 1)
    output = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK_K)
    wait_for_launches(DEPENDENT)
    if EARLY:
        let_next_begin(DEPENDENT)
    if choice < TOP_K:
        pair = token * TOP_K + choice
        matrix = weights + tl.load(experts + pair).to(tl.int64) * (2 * WIDTH * HIDDEN)
        width = WIDTH
        factor = tl.load(shares + pair)
    else:
        matrix = shared_weights
        width = SHARED_WIDTH
        factor = tl.load(openings + token)
    live = output < width
    gates = matrix + output[:, None] * HIDDEN + column[None, :]
    ups = gates + width * HIDDEN
    x = normed + token * HIDDEN + column
    gate_sums = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    up_sums = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    for start in tl.range(0, HIDDEN, BLOCK_K, num_stages=STAGES):
        there = column < HIDDEN - start
        mask = live[:, None] & there[None, :]
        gate = tl.load(gates + start, mask=mask, other=0.0)
        up = tl.load(ups + start, mask=mask, other=0.0)
        value = tl.load(x + start, mask=there, other=0.0).to(tl.float32)[None, :]
        gate_sums += gate.to(tl.float32) * value
        up_sums += up.to(tl.float32) * value
    if not EARLY:
        let_next_begin(DEPENDENT)
    result = silu(tl.sum(gate_sums, 1)) * tl.sum(up_sums, 1) * factor
    tl.store(inner + slot * WIDEST + output, result, mask=live)


@triton.jit
def outer_pairs(
    inner,
    weights,
    shared_weights,
    experts,
    residual,
    y,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDTH_PADDED: tl.constexpr,
    SHARED_WIDTH: tl.constexpr,
    SHARED_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """y [tokens, HIDDEN] = residual + the sum over `inner` of `inner_pairs`. Grid: (tokens, blocks of BLOCK_N outputs).

    The weights of all experts of a token are on their way before the program waits: what chose them is older than the
    launch ahead."""
    WIDEST: tl.constexpr = max(WIDTH, SHARED_WIDTH)
    token = tl.program_id(0)
    row = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    live = row < HIDDEN
    choice = tl.arange(0, triton.next_power_of_2(TOP_K))
    chosen = choice < TOP_K
    column = tl.arange(0, WIDTH_PADDED)
    there = column < WIDTH
    shared_column = tl.arange(0, SHARED_PADDED)
    shared_there = shared_column < SHARED_WIDTH
    expert = tl.load(experts + token * TOP_K + choice, mask=chosen, other=0, cache_modifier=".cg").to(tl.int64)
    # Choices in the middle, so that those of an output and input lie in one thread.
    place = weights + (expert * (HIDDEN * WIDTH))[None, :, None] + row[:, None, None] * WIDTH + column[None, None, :]
    mask = live[:, None, None] & there[None, None, :] & chosen[None, :, None]
    taken = tl.load(place, mask=mask, other=0.0)
    place = shared_weights + row[:, None] * SHARED_WIDTH + shared_column[None, :]
    shared_taken = tl.load(place, mask=live[:, None] & shared_there[None, :], other=0.0)
    wait_for_launches(DEPENDENT)
    values = inner + token * ((TOP_K + 1) * WIDEST)
    mask = chosen[:, None] & there[None, :]
    routed = tl.load(values + choice[:, None] * WIDEST + column[None, :], mask=mask, other=0.0)
    shared = tl.load(values + TOP_K * WIDEST + shared_column, mask=shared_there, other=0.0)
    let_next_begin(DEPENDENT)
    added = tl.load(residual + token * HIDDEN + row, mask=live, other=0.0)
    total = tl.sum(taken.to(tl.float32) * routed[None, :, :], 1)
    shared_total = shared_taken.to(tl.float32) * shared[None, :]
    if WIDTH_PADDED == SHARED_PADDED:
        sums = tl.sum(total + shared_total, 1)
    else:
        sums = tl.sum(total, 1) + tl.sum(shared_total, 1)
    sums += added.to(tl.float32)
    tl.store(y + token * HIDDEN + row, sums.to(y.dtype.element_ty), mask=live)
