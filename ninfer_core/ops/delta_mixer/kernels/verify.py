"""A decode round of several columns in one launch: one program for a row and a value head, its memory in registers.

The memory is the same for all columns of a round, since none of them is committed: it is looked at once, with all keys
and queries, and what the columns do to each other is a triangular system as small as they are few. With G the running
sum of g and S the memory after the fold, for column t

    u[t] = beta[t] · ( v[t] − e^G[t] Sᵀ k[t] − Σ_{j<t} e^(G[t] − G[j]) (k[j]·k[t]) u[j] )
    o[t] =                    e^G[t] Sᵀ q[t] + Σ_{j≤t} e^(G[t] − G[j]) (k[j]·q[t]) u[j]

Keys and queries stand in one tile, keys in its upper half; so do updates and read-outs.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ninfer_core.ops.delta_mixer.kernels.arithmetic import L2_EPSILON, log_decay, opened, sigmoid, silu
from ninfer_core.ops.delta_mixer.kernels.fold import fold_columns, recorded


@triton.jit
def _newest(qkv, qkv_column, column, channel, COLUMNS: tl.constexpr):
    """[tile, channels]: the new columns `column` [tile, 1] at `channel` [tile, channels]; zeros where there is none."""
    at = column + 0 * channel
    return tl.load(qkv + at * qkv_column + channel, mask=(at >= 0) & (at < COLUMNS), other=0.0)


@triton.jit
def _older(ring, slot, length, column, channel, conv, CHANNELS: tl.constexpr, RING: tl.constexpr):
    """What columns of the ring contribute to the convolution, float32."""
    total = tl.zeros(channel.shape, tl.float32)
    for tap in tl.static_range(3):
        at = column + (tap - 3) + 0 * channel
        place = slot * RING + (length + at) % RING
        found = tl.load(ring + place * CHANNELS + channel, mask=(at < 0) & (length + at >= 0), other=0.0)
        total += found.to(tl.float32) * tl.load(conv + channel * 4 + tap)
    return total


@triton.jit
def _convolved(qkv, qkv_column, older, column, channel, conv, COLUMNS: tl.constexpr):
    """`older` with the new columns added, through silu; rounded as `ops.causal_conv` does; float32 again. Columns that
    are not there may be anything finite."""
    total = older
    for tap in tl.static_range(4):
        found = _newest(qkv, qkv_column, column + (tap - 3), channel, COLUMNS)
        total += found.to(tl.float32) * tl.load(conv + channel * 4 + tap)
    return silu(total).to(qkv.dtype.element_ty).to(tl.float32)


@triton.jit(do_not_specialize=["slots", "lengths", "accepted"])
def verify_kernel(
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
    HALF: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMN_RING: tl.constexpr,
    RING: tl.constexpr,
    SILU: tl.constexpr,
    PRECISION: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Grid (value_heads, rows). `memory` and the rings are those of one layer; strides are in elements. HALF is a power
    of two of at least COLUMNS. DEPENDENT as in `decode_kernel`."""
    head = tl.program_id(0)
    row = tl.program_id(1)
    SHARE: tl.constexpr = VALUE_HEADS // KEY_HEADS
    KEYS: tl.constexpr = KEY_HEADS * KEY_DIM
    UPDATES: tl.constexpr = VALUE_HEADS * VALUE_DIM
    CHANNELS: tl.constexpr = 2 * KEYS + UPDATES
    group = head // SHARE
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    slot = tl.load(slots + row)
    length = tl.load(lengths + row).to(tl.int32)
    taken = tl.load(accepted + row).to(tl.int32)

    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM)
    home += key_index[:, None] * VALUE_DIM + value_index[None, :]
    held = tl.load(home)
    key_home = key_ring + slot * (RING * KEYS) + group * KEY_DIM + key_index
    update_home = update_ring + slot * (RING * UPDATES) + head * VALUE_DIM + value_index
    decay_home = decay_ring + slot * (RING * VALUE_HEADS) + head
    first = length - taken
    old_key, old_update, old_decay = recorded(
        key_home, update_home, decay_home, first % RING, KEYS, UPDATES, VALUE_HEADS
    )
    line = tl.arange(0, 2 * HALF)
    of_key = line < HALF
    column = line % HALF
    wide = column[:, None]
    key_channel = tl.where(of_key, KEYS, 0)[:, None] + group * KEY_DIM + key_index[None, :]
    value_channel = 2 * KEYS + head * VALUE_DIM + value_index[None, :] + 0 * line[:, None]
    older_key = _older(column_ring, slot, length, wide, key_channel, conv, CHANNELS, COLUMN_RING)
    older_value = _older(column_ring, slot, length, wide, value_channel, conv, CHANNELS, COLUMN_RING)
    if DEPENDENT:
        gdc_wait()
    qkv += row * qkv_row
    there = column < COLUMNS
    key = _convolved(qkv, qkv_column, older_key, wide, key_channel, conv, COLUMNS)
    value = _convolved(qkv, qkv_column, older_value, wide, value_channel, conv, COLUMNS)
    rate = tl.load(a + row * a_row + column * a_column + head, mask=there, other=0.0).to(tl.float32)
    strength = tl.load(b + row * b_row + column * b_column + head, mask=there, other=0.0).to(tl.float32)
    opening_home = gate + row * gate_row + wide * gate_column + head * VALUE_DIM + value_index[None, :]
    inside = there[:, None] & (value_index >= 0)[None, :]
    opening = tl.load(opening_home, mask=inside & (line >= HALF)[:, None], other=0.0).to(tl.float32)
    if DEPENDENT:
        gdc_launch_dependents()

    held = fold_columns(
        held, old_key, old_update, old_decay, key_home, update_home, decay_home, first, taken,
        KEYS, UPDATES, VALUE_HEADS, RING,
    )  # fmt: skip
    if taken > 0:
        tl.store(home, held)

    key = key * (tl.rsqrt(tl.sum(key * key, 1) + L2_EPSILON) * tl.where(of_key, 1.0, KEY_DIM**-0.5))[:, None]
    decay = tl.where(there, log_decay(rate, tl.load(a_log + head), tl.load(dt_bias + head)), 0.0)
    earlier = column[None, :] <= wide
    running = tl.sum(tl.where(earlier & of_key[None, :], decay[None, :], 0.0), 1)
    counts = tl.where(of_key[:, None], column[None, :] < wide, earlier) & of_key[None, :] & there[None, :]
    running_key = tl.sum(tl.where((line[None, :] == line[:, None]), running[:, None], 0.0), 0)
    apart = tl.where(counts, running[:, None] - running_key[None, :], 0.0)
    products = tl.dot(key, tl.trans(key), input_precision=PRECISION)
    factor = tl.where(of_key, -sigmoid(strength), 1.0)
    weights = tl.where(counts, factor[:, None] * products * tl.exp(apart), 0.0)
    result = tl.dot(key, held, input_precision=PRECISION) * (factor * tl.exp(running))[:, None]
    result += tl.where(of_key[:, None], -factor[:, None] * value, 0.0)
    # Update j is done when those before it have been taken from it.
    for j in range(COLUMNS):
        update = tl.sum(tl.where(line[:, None] == j, result, 0.0), 0)
        result += tl.sum(tl.where(line[None, :] == j, weights, 0.0), 1)[:, None] * update[None, :]

    scale = tl.rsqrt(tl.sum(result * result, 1) / VALUE_DIM + epsilon)
    gated = result * scale[:, None] * tl.load(gate_norm + value_index)[None, :] * opened(opening, SILU)
    out += (row * COLUMNS * VALUE_HEADS + head) * VALUE_DIM + wide * UPDATES + value_index[None, :]
    tl.store(out, gated.to(out.dtype.element_ty), mask=inside & (line >= HALF)[:, None])
    place = (length + column) % RING
    of_value = inside & of_key[:, None]
    update_place = place[:, None] * UPDATES + head * VALUE_DIM + value_index[None, :]
    tl.store(update_ring + slot * (RING * UPDATES) + update_place, result, mask=of_value)
    tl.store(decay_home + place * VALUE_HEADS, decay, mask=there & of_key)
    before = column_ring + (slot * COLUMN_RING + (length + wide) % COLUMN_RING) * CHANNELS
    tl.store(before + value_channel, _newest(qkv, qkv_column, wide, value_channel, COLUMNS), mask=of_value)
    if head % SHARE == 0:
        all_keys = there[:, None] & (key_index >= 0)[None, :]
        key_place = place[:, None] * KEYS + group * KEY_DIM + key_index[None, :]
        tl.store(key_ring + slot * (RING * KEYS) + key_place, key, mask=all_keys & of_key[:, None])
        tl.store(before + key_channel, _newest(qkv, qkv_column, wide, key_channel, COLUMNS), mask=all_keys)
