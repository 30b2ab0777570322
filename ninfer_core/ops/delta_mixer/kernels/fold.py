"""Columns of the last round put into the memory: what a round begins with, and a launch of its own."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def recorded(key_home, update_home, decay_home, place, KEYS: tl.constexpr, UPDATES: tl.constexpr, HEADS: tl.constexpr):
    """Key, update and decay of one column."""
    key = tl.load(key_home + place * KEYS)
    update = tl.load(update_home + place * UPDATES)
    return key, update, tl.load(decay_home + place * HEADS)


@triton.jit
def fold_columns(
    held,
    key,
    update,
    decay,
    key_home,
    update_home,
    decay_home,
    first,
    taken,
    KEYS: tl.constexpr,
    UPDATES: tl.constexpr,
    HEADS: tl.constexpr,
    RING: tl.constexpr,
):
    """held [key_dim, value_dim] after the columns at positions [first, first + taken), of which `key`, `update` and
    `decay` are the first.

    S ← e^g S + k uᵀ is fused by hand: a compiler that chose for itself which product to fuse could choose differently
    in one kernel and in another, and all must come to the same bits.
    """
    for column in range(taken):
        outer = tl.broadcast_to(key[:, None], held.shape)
        held = tl.fma(outer, tl.broadcast_to(update[None, :], held.shape), held * tl.exp(decay))
        if RING > 2:
            # The next column is asked for while this one is folded; the one behind the last is asked for in vain.
            key, update, decay = recorded(
                key_home, update_home, decay_home, (first + column + 1) % RING, KEYS, UPDATES, HEADS
            )
    return held


@triton.jit(do_not_specialize=["slots", "lengths", "accepted", "total_slots"])
def fold_kernel(
    memory,
    key_ring,
    update_ring,
    decay_ring,
    slots,
    lengths,
    accepted,
    total_slots,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    RING: tl.constexpr,
):
    """Grid (value_heads, rows, layers). `memory` and the rings are those of all layers."""
    head = tl.program_id(0)
    row = tl.program_id(1)
    slot = tl.program_id(2) * total_slots + tl.load(slots + row)
    taken = tl.load(accepted + row).to(tl.int32)
    if taken > 0:
        first = tl.load(lengths + row).to(tl.int32) - taken
        key_index = tl.arange(0, KEY_DIM)
        value_index = tl.arange(0, VALUE_DIM)
        square = key_index[:, None] * VALUE_DIM + value_index[None, :]
        home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
        group = head // (VALUE_HEADS // KEY_HEADS)
        key_home = key_ring + slot * (RING * KEY_HEADS * KEY_DIM) + group * KEY_DIM + key_index
        update_home = update_ring + slot * (RING * VALUE_HEADS * VALUE_DIM) + head * VALUE_DIM + value_index
        decay_home = decay_ring + slot * (RING * VALUE_HEADS) + head
        KEYS: tl.constexpr = KEY_HEADS * KEY_DIM
        UPDATES: tl.constexpr = VALUE_HEADS * VALUE_DIM
        key, update, decay = recorded(key_home, update_home, decay_home, first % RING, KEYS, UPDATES, VALUE_HEADS)
        held = fold_columns(
            tl.load(home), key, update, decay, key_home, update_home, decay_home, first, taken,
            KEYS, UPDATES, VALUE_HEADS, RING,
        )  # fmt: skip
        tl.store(home, held)
