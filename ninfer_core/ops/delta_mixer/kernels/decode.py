"""A decode round of one layer in one launch: one program for a row and a value head, its memory in registers.

The programs of the value heads that share a key head compute its query and key each for themselves; the first of them
leaves the key in the rings. Reads and writes of the rings are at different positions, so programs need no order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.delta_mixer.kernels.arithmetic import L2_EPSILON, log_decay, opened
from ninfer_core.ops.delta_mixer.kernels.memory import (
    along_keys,
    first_recorded,
    folded,
    load_memory,
    read_out,
    stepped,
    store_memory,
)
from ninfer_core.ops.kernels.activation import sigmoid, silu
from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches


@triton.jit
def _sums_of_three(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def _taps(conv, channel):
    """The four taps of each channel."""
    home = conv + channel * 4
    return tl.load(home), tl.load(home + 1), tl.load(home + 2), tl.load(home + 3)


@triton.jit
def _older(ring, slot, length, channel, CHANNELS: tl.constexpr, RING: tl.constexpr):
    """The three columns before the first new one, float32, oldest first; zeros before the beginning."""
    # Compared as a block: the interpreter takes no mask that is one number for a block of pointers.
    position = channel * 0 + length - 3
    home = ring + slot * (RING * CHANNELS) + channel
    x0 = tl.load(home + position % RING * CHANNELS, mask=position >= 0, other=0.0, cache_modifier=".cg")
    x1 = tl.load(home + (position + 1) % RING * CHANNELS, mask=position >= -1, other=0.0, cache_modifier=".cg")
    x2 = tl.load(home + (position + 2) % RING * CHANNELS, mask=position >= -2, other=0.0, cache_modifier=".cg")
    return x0.to(tl.float32), x1.to(tl.float32), x2.to(tl.float32)


@triton.jit
def _convolved(older, newest, taps):
    """silu of the sum over four columns, rounded to the activation dtype as `ops.causal_conv` does; float32 again."""
    total = tl.fma(older[2], taps[2], tl.fma(older[1], taps[1], older[0] * taps[0]))
    return silu(tl.fma(newest.to(tl.float32), taps[3], total)).to(newest.dtype).to(tl.float32)


@triton.jit
def _prefetch(pointers):
    """Have lines of 128 bytes brought into the level-2 cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [pointers.to(tl.int64)], tl.int32, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["slots", "lengths", "accepted"])
def decode_kernel(
    qkv,
    qkv_row,
    qkv_column,
    gate,
    gate_row,
    gate_column,
    b,
    b_row,
    b_column,
    a,
    a_row,
    a_column,
    conv,
    a_log,
    dt_bias,
    gate_norm,
    memory,
    column_ring,
    key_ring,
    update_ring,
    decay_ring,
    slots,
    lengths,
    accepted,
    out,
    epsilon,
    COLUMNS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMN_RING: tl.constexpr,
    RING: tl.constexpr,
    SILU: tl.constexpr,
    WARPS: tl.constexpr,
    SHARING: tl.constexpr,
    AHEAD: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid (value_heads, rows). `memory` and the rings are those of one layer; strides are in elements.

    With DEPENDENT the launch may begin before the one ahead has ended, but not before that one has seen the end of
    everything ahead of itself: so what the round's start has written can be read at once, and the projection alone is
    waited for. That is so because `ops.linear` waits before it lets the next launch begin; one that does it the other
    way round, as those of `ops.moe` do, may not stand right ahead of this one.

    With AHEAD, which is how many programs run at once, each has the memory of the one that follows it there brought
    into the cache, so that the last ones, which leave most of the device idle, are not slower for it.
    """
    head = tl.program_id(0)
    row = tl.program_id(1)
    SHARE: tl.constexpr = VALUE_HEADS // KEY_HEADS
    CHANNELS: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    group = head // SHARE
    first_of_group = head % SHARE == 0
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    slot = tl.load(slots + row, cache_modifier=".cg")
    length = tl.load(lengths + row, cache_modifier=".cg").to(tl.int32)
    taken = tl.load(accepted + row, cache_modifier=".cg").to(tl.int32)
    first = length - taken
    oldest, homes = first_recorded(
        key_ring, update_ring, decay_ring, slot, head, first, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING
    )
    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM)
    held = load_memory(home, KEY_DIM, VALUE_DIM, WARPS, SHARING)
    query_channel = group * KEY_DIM + key_index
    key_channel = KEY_HEADS * KEY_DIM + query_channel
    value_channel = 2 * KEY_HEADS * KEY_DIM + head * VALUE_DIM + value_index
    query0, query1, query2 = _older(column_ring, slot, length, query_channel, CHANNELS, COLUMN_RING)
    key0, key1, key2 = _older(column_ring, slot, length, key_channel, CHANNELS, COLUMN_RING)
    value0, value1, value2 = _older(column_ring, slot, length, value_channel, CHANNELS, COLUMN_RING)
    query_taps = _taps(conv, query_channel)
    key_taps = _taps(conv, key_channel)
    value_taps = _taps(conv, value_channel)
    log_rate = tl.load(a_log + head)
    bias = tl.load(dt_bias + head)
    norm = tl.load(gate_norm + value_index)
    qkv += row * qkv_row
    gate += row * gate_row + head * VALUE_DIM + value_index
    b += row * b_row + head
    a += row * a_row + head
    out += (row * COLUMNS * VALUE_HEADS + head) * VALUE_DIM + value_index
    wait_for_launches(DEPENDENT)
    query3 = tl.load(qkv + query_channel)
    key3 = tl.load(qkv + key_channel)
    value3 = tl.load(qkv + value_channel)
    opening = tl.load(gate)
    strength = tl.load(b)
    rate = tl.load(a)
    let_next_begin(DEPENDENT)
    if AHEAD > 0:
        following = row * VALUE_HEADS + head + AHEAD
        if following < tl.num_programs(1) * VALUE_HEADS:
            theirs = (tl.load(slots + following // VALUE_HEADS) * VALUE_HEADS + following % VALUE_HEADS) * KEY_DIM
            _prefetch(memory + theirs * VALUE_DIM + tl.arange(0, KEY_DIM * VALUE_DIM // 32) * 32)
    held = folded(held, oldest, homes, first, taken, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING)
    if taken > 0:
        store_memory(home, held, KEY_DIM, VALUE_DIM, WARPS, SHARING)

    for column in range(COLUMNS):
        query = _convolved((query0, query1, query2), query3, query_taps)
        key = _convolved((key0, key1, key2), key3, key_taps)
        value = _convolved((value0, value1, value2), value3, value_taps)
        query0, query1, query2 = query1, query2, query3.to(tl.float32)
        key0, key1, key2 = key1, key2, key3.to(tl.float32)
        value0, value1, value2 = value1, value2, value3.to(tl.float32)
        decay = log_decay(rate.to(tl.float32), log_rate, bias)
        beta = sigmoid(strength.to(tl.float32))
        opened_gate = opened(opening.to(tl.float32), SILU)
        place = (length + column) % RING
        before = column_ring + (slot * COLUMN_RING + (length + column) % COLUMN_RING) * CHANNELS
        tl.store(before + value_channel, value3)
        if first_of_group:
            tl.store(before + query_channel, query3)
            tl.store(before + key_channel, key3)
        if COLUMNS > 1:
            # The next column is asked for while this one is computed; behind the last it is asked for again.
            step = tl.minimum(length + column + 1, length + (COLUMNS - 1)) - length
            query3 = tl.load(qkv + step * qkv_column + query_channel)
            key3 = tl.load(qkv + step * qkv_column + key_channel)
            value3 = tl.load(qkv + step * qkv_column + value_channel)
            opening = tl.load(gate + step * gate_column)
            strength = tl.load(b + step * b_column)
            rate = tl.load(a + step * a_column)

        queries, keys, both = tl.reduce((query * query, key * key, query * key), 0, _sums_of_three)
        query_scale = tl.rsqrt(queries + L2_EPSILON) * (KEY_DIM**-0.5)
        key_scale = tl.rsqrt(keys + L2_EPSILON)
        query = query * query_scale
        key = key * key_scale
        growth = tl.exp(decay)
        key_along = along_keys(key, SHARING)
        # Sums over keys are taken of a memory that is not decayed yet: they decay as it does.
        update = beta * tl.fma(read_out(held, key_along), tl.broadcast_to(-growth, value.shape), value)
        read = read_out(held, along_keys(query, SHARING)) * growth
        # What the memory gains is read without another pass over it.
        read = tl.fma(tl.broadcast_to(both * query_scale * key_scale, read.shape), update, read)
        if COLUMNS > 1:
            held = stepped(held, growth, key_along, update)
        scale = tl.rsqrt(tl.sum(read * read, 0) / VALUE_DIM + epsilon)
        gated = read * scale * norm * opened_gate
        tl.store(out + column * (VALUE_HEADS * VALUE_DIM), gated.to(out.dtype.element_ty))
        tl.store(homes[1] + place * (VALUE_HEADS * VALUE_DIM), update)
        tl.store(homes[2] + place * VALUE_HEADS, decay)
        if first_of_group:
            tl.store(homes[0] + place * (KEY_HEADS * KEY_DIM), key)


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
    WARPS: tl.constexpr,
    SHARING: tl.constexpr,
):
    """Grid (value_heads, rows, layers). `memory` and the rings are those of all layers."""
    head = tl.program_id(0)
    row = tl.program_id(1)
    slot = tl.program_id(2) * total_slots + tl.load(slots + row)
    taken = tl.load(accepted + row).to(tl.int32)
    first = tl.load(lengths + row).to(tl.int32) - taken
    if taken > 0:
        oldest, homes = first_recorded(
            key_ring, update_ring, decay_ring, slot, head, first, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING
        )
        home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM)
        held = load_memory(home, KEY_DIM, VALUE_DIM, WARPS, SHARING)
        held = folded(held, oldest, homes, first, taken, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING)
        store_memory(home, held, KEY_DIM, VALUE_DIM, WARPS, SHARING)
