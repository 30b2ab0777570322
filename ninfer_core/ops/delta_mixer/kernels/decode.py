"""A decode round of one column in one launch: one program for a row and a value head, its memory in registers.

The programs of the value heads that share a key head compute its query and key each for themselves; the first of them
leaves the key in the rings. Reads and writes of the rings are at different positions, so programs need no order.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ninfer_core.ops.delta_mixer.kernels.arithmetic import L2_EPSILON, log_decay, opened, sigmoid, silu
from ninfer_core.ops.delta_mixer.kernels.fold import fold_columns, recorded


@triton.jit
def _sums_of_two(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


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
    x0 = tl.load(home + position % RING * CHANNELS, mask=position >= 0, other=0.0)
    x1 = tl.load(home + (position + 1) % RING * CHANNELS, mask=position >= -1, other=0.0)
    x2 = tl.load(home + (position + 2) % RING * CHANNELS, mask=position >= -2, other=0.0)
    return x0.to(tl.float32), x1.to(tl.float32), x2.to(tl.float32)


@triton.jit
def _convolved(older, newest, taps):
    """silu of the sum over four columns, rounded to the activation dtype as `ops.causal_conv` does; float32 again."""
    total = older[0] * taps[0] + older[1] * taps[1] + older[2] * taps[2] + newest.to(tl.float32) * taps[3]
    return silu(total).to(newest.dtype).to(tl.float32)


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
    gate,
    gate_row,
    b,
    b_row,
    a,
    a_row,
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
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMN_RING: tl.constexpr,
    RING: tl.constexpr,
    SILU: tl.constexpr,
    AHEAD: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid (value_heads, rows). `memory` and the rings are those of one layer; strides are in elements.

    With DEPENDENT the launch may begin before the one ahead has ended, but not before that one has seen the end of
    everything ahead of itself: so what the round's start has written can be read at once, and the projection alone is
    waited for. With AHEAD, which is how many programs run at once, each has the memory of the one that follows it there
    brought into the cache, so that the last ones, which leave most of the device idle, are not slower for it.
    """
    head = tl.program_id(0)
    row = tl.program_id(1)
    SHARE: tl.constexpr = VALUE_HEADS // KEY_HEADS
    CHANNELS: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    KEYS: tl.constexpr = KEY_HEADS * KEY_DIM
    UPDATES: tl.constexpr = VALUE_HEADS * VALUE_DIM
    group = head // SHARE
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    slot = tl.load(slots + row)
    length = tl.load(lengths + row).to(tl.int32)
    taken = tl.load(accepted + row).to(tl.int32)

    # Everything that does not depend on the projection is asked for first, then what does: one wait for all of it.
    square = key_index[:, None] * VALUE_DIM + value_index[None, :]
    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
    held = tl.load(home)
    key_home = key_ring + slot * (RING * KEY_HEADS * KEY_DIM) + group * KEY_DIM + key_index
    update_home = update_ring + slot * (RING * VALUE_HEADS * VALUE_DIM) + head * VALUE_DIM + value_index
    decay_home = decay_ring + slot * (RING * VALUE_HEADS) + head
    first = length - taken
    old_key, old_update, old_decay = recorded(
        key_home, update_home, decay_home, first % RING, KEYS, UPDATES, VALUE_HEADS
    )
    query_channel = group * KEY_DIM + key_index
    key_channel = KEY_HEADS * KEY_DIM + query_channel
    value_channel = 2 * KEY_HEADS * KEY_DIM + head * VALUE_DIM + value_index
    older_query = _older(column_ring, slot, length, query_channel, CHANNELS, COLUMN_RING)
    older_key = _older(column_ring, slot, length, key_channel, CHANNELS, COLUMN_RING)
    older_value = _older(column_ring, slot, length, value_channel, CHANNELS, COLUMN_RING)
    query_taps = _taps(conv, query_channel)
    key_taps = _taps(conv, key_channel)
    value_taps = _taps(conv, value_channel)
    log_rate = tl.load(a_log + head)
    bias = tl.load(dt_bias + head)
    norm = tl.load(gate_norm + value_index)
    if DEPENDENT:
        gdc_wait()
    new_query = tl.load(qkv + row * qkv_row + query_channel)
    new_key = tl.load(qkv + row * qkv_row + key_channel)
    new_value = tl.load(qkv + row * qkv_row + value_channel)
    opening = tl.load(gate + row * gate_row + head * VALUE_DIM + value_index)
    strength = tl.load(b + row * b_row + head)
    rate = tl.load(a + row * a_row + head)
    if DEPENDENT:
        gdc_launch_dependents()
    if AHEAD > 0:
        following = row * VALUE_HEADS + head + AHEAD
        if following < tl.num_programs(1) * VALUE_HEADS:
            theirs = (tl.load(slots + following // VALUE_HEADS) * VALUE_HEADS + following % VALUE_HEADS) * KEY_DIM
            _prefetch(memory + theirs * VALUE_DIM + tl.arange(0, KEY_DIM * VALUE_DIM // 32) * 32)

    held = fold_columns(
        held, old_key, old_update, old_decay, key_home, update_home, decay_home, first, taken,
        KEYS, UPDATES, VALUE_HEADS, RING,
    )  # fmt: skip
    if taken > 0:
        tl.store(home, held)

    query = _convolved(older_query, new_query, query_taps)
    key = _convolved(older_key, new_key, key_taps)
    value = _convolved(older_value, new_value, value_taps)
    before = column_ring + (slot * COLUMN_RING + length % COLUMN_RING) * CHANNELS
    tl.store(before + value_channel, new_value)
    queries, keys, both = tl.reduce((query * query, key * key, query * key), 0, _sums_of_three)
    query_scale = tl.rsqrt(queries + L2_EPSILON) * (KEY_DIM**-0.5)
    key_scale = tl.rsqrt(keys + L2_EPSILON)
    query = query * query_scale
    key = key * key_scale
    decay = log_decay(rate.to(tl.float32), log_rate, bias)
    held = held * tl.exp(decay)
    recalled, read = tl.reduce((held * key[:, None], held * query[:, None]), 0, _sums_of_two)
    update = sigmoid(strength.to(tl.float32)) * (value - recalled)
    read += both * query_scale * key_scale * update  # what the memory gains is read without being put there
    scale = tl.rsqrt(tl.sum(read * read, 0) / VALUE_DIM + epsilon)
    gated = read * scale * norm * opened(opening.to(tl.float32), SILU)
    tl.store(out + (row * VALUE_HEADS + head) * VALUE_DIM + value_index, gated.to(out.dtype.element_ty))
    place = length % RING
    tl.store(update_home + place * UPDATES, update)
    tl.store(decay_home + place * VALUE_HEADS, decay)
    if head % SHARE == 0:
        tl.store(key_home + place * KEYS, key)
        tl.store(before + query_channel, new_query)
        tl.store(before + key_channel, new_key)
