"""A decode round of one layer in one launch: one program for a row and a value head, its memory in registers.

The programs of the value heads that share a key head compute its query and key each for themselves; the first of them
leaves the key in the rings. Reads and writes of the rings are at different positions, so programs need no order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.delta_mixer.kernels.arithmetic import L2_EPSILON, log_decay, opened, sigmoid, silu, stepped


@triton.jit
def fold_columns(
    memory,
    key_ring,
    update_ring,
    decay_ring,
    slot,
    length,
    accepted,
    head,
    group,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    RING: tl.constexpr,
):
    """memory [key_dim, value_dim] after the columns at positions [length − accepted, length). Each column is asked for
    while the one before it is folded; the one behind the last, which may be anything, is asked for in vain."""
    first = length - accepted
    place = slot * RING + first % RING
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    key_home = key_ring + group * KEY_DIM + key_index
    update_home = update_ring + head * VALUE_DIM + value_index
    decay_home = decay_ring + head
    key = tl.load(key_home + place * (KEY_HEADS * KEY_DIM))
    update = tl.load(update_home + place * (VALUE_HEADS * VALUE_DIM))
    decay = tl.load(decay_home + place * VALUE_HEADS)
    for column in range(accepted):
        place = slot * RING + (first + column + 1) % RING
        next_key = tl.load(key_home + place * (KEY_HEADS * KEY_DIM))
        next_update = tl.load(update_home + place * (VALUE_HEADS * VALUE_DIM))
        next_decay = tl.load(decay_home + place * VALUE_HEADS)
        memory = stepped(memory * tl.exp(decay), key, update)
        key = next_key
        update = next_update
        decay = next_decay
    return memory


@triton.jit
def _window(qkv, qkv_column, column, ring, slot, length, channel, CHANNELS: tl.constexpr, RING: tl.constexpr):
    """The column and the three before it, [4, channels of the head]: new ones from the projection, older ones from the
    ring, zeros before the beginning. A tile of four is also what keeps the compiler from holding every channel in
    every thread."""
    offset = column - 3 + tl.arange(0, 4)[:, None] + 0 * channel[None, :]
    place = slot * RING + (length + offset) % RING
    older = tl.load(ring + place * CHANNELS + channel, mask=(offset < 0) & (length + offset >= 0), other=0.0)
    return older + tl.load(qkv + offset * qkv_column + channel, mask=offset >= 0, other=0.0)


@triton.jit
def _taps(conv, channel):
    """[4, channels of the head], float32."""
    return tl.load(conv + channel[None, :] * 4 + tl.arange(0, 4)[:, None])


@triton.jit
def _convolved(window, taps):
    """silu of the sum over four columns, rounded to the activation dtype as `ops.causal_conv` does; float32 again."""
    return silu(tl.sum(window.to(tl.float32) * taps, 0)).to(window.dtype).to(tl.float32)


@triton.jit
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
    DEPENDENT: tl.constexpr,
):
    """Grid (value_heads, rows). `memory` and the rings are those of one layer; strides are in elements."""
    head = tl.program_id(0)
    row = tl.program_id(1)
    SHARE: tl.constexpr = VALUE_HEADS // KEY_HEADS
    CHANNELS: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    group = head // SHARE
    first_of_group = head % SHARE == 0
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    slot = tl.load(slots + row)
    length = tl.load(lengths + row).to(tl.int32)
    taken = tl.load(accepted + row).to(tl.int32)

    square = key_index[:, None] * VALUE_DIM + value_index[None, :]
    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
    held = tl.load(home)
    query_channel = group * KEY_DIM + key_index
    key_channel = KEY_HEADS * KEY_DIM + query_channel
    value_channel = 2 * KEY_HEADS * KEY_DIM + head * VALUE_DIM + value_index
    query_taps = _taps(conv, query_channel)
    key_taps = _taps(conv, key_channel)
    value_taps = _taps(conv, value_channel)
    log_rate = tl.load(a_log + head)
    bias = tl.load(dt_bias + head)
    norm = tl.load(gate_norm + value_index)
    held = fold_columns(
        held, key_ring, update_ring, decay_ring, slot, length, taken, head, group,
        KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING,
    )  # fmt: skip
    if taken > 0:
        tl.store(home, held)

    if DEPENDENT:
        tl.extra.cuda.gdc_wait()
    qkv += row * qkv_row
    gate += row * gate_row + head * VALUE_DIM + value_index
    b += row * b_row + head
    a += row * a_row + head
    out += (row * COLUMNS * VALUE_HEADS + head) * VALUE_DIM + value_index
    query_window = _window(qkv, qkv_column, 0, column_ring, slot, length, query_channel, CHANNELS, COLUMN_RING)
    key_window = _window(qkv, qkv_column, 0, column_ring, slot, length, key_channel, CHANNELS, COLUMN_RING)
    value_window = _window(qkv, qkv_column, 0, column_ring, slot, length, value_channel, CHANNELS, COLUMN_RING)
    opening = tl.load(gate)
    strength = tl.load(b)
    rate = tl.load(a)
    for column in range(COLUMNS):
        query = _convolved(query_window, query_taps)
        key = _convolved(key_window, key_taps)
        value = _convolved(value_window, value_taps)
        position = length + column
        if COLUMNS > 1:
            # The next column is asked for while this one is computed; behind the last it is asked for again.
            step = tl.minimum(position + 1, length + (COLUMNS - 1)) - length
            query_window = _window(
                qkv, qkv_column, step, column_ring, slot, length, query_channel, CHANNELS, COLUMN_RING
            )
            key_window = _window(qkv, qkv_column, step, column_ring, slot, length, key_channel, CHANNELS, COLUMN_RING)
            value_window = _window(
                qkv, qkv_column, step, column_ring, slot, length, value_channel, CHANNELS, COLUMN_RING
            )
            next_opening = tl.load(gate + step * gate_column)
            next_strength = tl.load(b + step * b_column)
            next_rate = tl.load(a + step * a_column)

        query = query * (tl.rsqrt(tl.sum(query * query, 0) + L2_EPSILON) * (KEY_DIM**-0.5))
        key = key * tl.rsqrt(tl.sum(key * key, 0) + L2_EPSILON)
        decay = log_decay(rate.to(tl.float32), log_rate, bias)
        decayed = held * tl.exp(decay)
        recalled = tl.sum(decayed * key[:, None], 0)
        read = tl.sum(decayed * query[:, None], 0)
        update = sigmoid(strength.to(tl.float32)) * (value - recalled)
        held = stepped(decayed, key, update)
        read += tl.sum(query * key, 0) * update  # what the memory gains is read without a second pass over it
        scale = tl.rsqrt(tl.sum(read * read, 0) / VALUE_DIM + epsilon)
        gated = read * scale * norm * opened(opening.to(tl.float32), SILU)
        tl.store(out + column * (VALUE_HEADS * VALUE_DIM), gated.to(out.dtype.element_ty))

        place = slot * RING + position % RING
        tl.store(update_ring + (place * VALUE_HEADS + head) * VALUE_DIM + value_index, update)
        tl.store(decay_ring + place * VALUE_HEADS + head, decay)
        source = qkv + column * qkv_column
        before = column_ring + (slot * COLUMN_RING + position % COLUMN_RING) * CHANNELS
        tl.store(before + value_channel, tl.load(source + value_channel))
        if first_of_group:
            tl.store(key_ring + (place * KEY_HEADS + group) * KEY_DIM + key_index, key)
            tl.store(before + query_channel, tl.load(source + query_channel))
            tl.store(before + key_channel, tl.load(source + key_channel))
        if COLUMNS > 1:
            opening = next_opening
            strength = next_strength
            rate = next_rate


@triton.jit
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
    length = tl.load(lengths + row).to(tl.int32)
    taken = tl.load(accepted + row).to(tl.int32)
    if taken > 0:
        square = tl.arange(0, KEY_DIM)[:, None] * VALUE_DIM + tl.arange(0, VALUE_DIM)[None, :]
        home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
        held = fold_columns(
            tl.load(home), key_ring, update_ring, decay_ring, slot, length, taken, head,
            head // (VALUE_HEADS // KEY_HEADS), KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, RING,
        )  # fmt: skip
        tl.store(home, held)
