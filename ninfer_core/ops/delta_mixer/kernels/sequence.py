"""What a prefill computes from chunk to chunk, and what follows from it for every chunk again. Names as in
`ops.gated_delta.chunked`.

`scan_kernel` walks the chunks of one head with its memory in float32, a part of value_dim to each program; it leaves
the memory before every EVERY-th chunk and the corrected values V' of all. `read_kernel` takes a chunk and a value head:
the read-out, from the last memory before it and the values since, and the gated norm.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.delta_mixer.kernels.arithmetic import opened
from ninfer_core.ops.delta_mixer.kernels.chunks import CHUNK


@triton.jit
def _keep(qkv, qkv_column, ring, slot, length, count, channel, CHANNELS: tl.constexpr, RING: tl.constexpr):
    """Leave the last three columns of these channels in the ring; all, when there are fewer."""
    column = count - 4 + tl.arange(0, 4)[:, None] + 0 * channel[None, :]
    wanted = (column >= 0) & (column > count - 4)
    values = tl.load(qkv + column.to(tl.int64) * qkv_column + channel[None, :], mask=wanted, other=0.0)
    place = slot * RING + (length + column) % RING
    tl.store(ring + place * CHANNELS + channel[None, :], values, mask=wanted)


@triton.jit(do_not_specialize=["slots", "lengths", "count", "chunks"])
def scan_kernel(
    qkv,
    qkv_row,
    qkv_column,
    key_in,
    base,
    pull_in,
    running_in,
    before_out,
    memory,
    column_ring,
    slots,
    lengths,
    count,
    chunks,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMN_RING: tl.constexpr,
    EVERY: tl.constexpr,
    PART: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Grid (value_dim / PART, value_heads, rows). `base` holds U and is overwritten with V'; before_out [rows,
    value_heads, chunks / EVERY rounded up, key_dim, value_dim]; `memory` and `column_ring` are those of one layer."""
    part = tl.program_id(0)
    head = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    SHARE: tl.constexpr = VALUE_HEADS // KEY_HEADS
    CHANNELS: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    dtype: tl.constexpr = key_in.dtype.element_ty
    slot = tl.load(slots + row)
    group = head // SHARE
    index = tl.arange(0, CHUNK)
    key_index = tl.arange(0, KEY_DIM)
    value_index = part * PART + tl.arange(0, PART)
    padded = chunks * CHUNK
    lane = row * VALUE_HEADS + head
    # Long distances are added to the pointer, once; what is added to it for every element is short.
    square = key_index[:, None] * VALUE_DIM + value_index[None, :]
    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
    key_in += (row * KEY_HEADS + group) * padded * KEY_DIM
    pull_in += lane * padded * KEY_DIM
    base += lane * padded * VALUE_DIM
    running_in += lane * padded
    before_out += lane * tl.cdiv(chunks, EVERY) * (KEY_DIM * VALUE_DIM)
    key_tile = index[None, :] * KEY_DIM + key_index[:, None]
    pull_tile = index[:, None] * KEY_DIM + key_index[None, :]
    base_tile = index[:, None] * VALUE_DIM + value_index[None, :]
    held = tl.load(home)
    for chunk in tl.range(chunks, num_stages=STAGES):
        narrow = held.to(dtype)
        if chunk % EVERY == 0:
            tl.store(before_out + square, narrow)
            before_out += KEY_DIM * VALUE_DIM
        pull = tl.load(pull_in + pull_tile)
        key = tl.load(key_in + key_tile)
        start = tl.load(base + base_tile).to(tl.float32)
        running = tl.load(running_in + index)
        last = tl.load(running_in + (CHUNK - 1))
        corrected = start - tl.dot(pull, narrow, input_precision=PRECISION)
        tl.store(base + base_tile, corrected.to(dtype))
        pull_in += CHUNK * KEY_DIM
        key_in += CHUNK * KEY_DIM
        base += CHUNK * VALUE_DIM
        running_in += CHUNK
        weighted = (corrected * tl.exp(last - running)[:, None]).to(dtype)
        held = tl.dot(key, weighted, held * tl.exp(last), input_precision=PRECISION)
    tl.store(home, held)

    if part == 0:
        qkv += row * qkv_row
        length = tl.load(lengths + row).to(tl.int32)
        channel = 2 * KEY_HEADS * KEY_DIM + head * VALUE_DIM + tl.arange(0, VALUE_DIM)
        _keep(qkv, qkv_column, column_ring, slot, length, count, channel, CHANNELS, COLUMN_RING)
        if head % SHARE == 0:
            channel = group * KEY_DIM + key_index
            _keep(qkv, qkv_column, column_ring, slot, length, count, channel, CHANNELS, COLUMN_RING)
            channel += KEY_HEADS * KEY_DIM
            _keep(qkv, qkv_column, column_ring, slot, length, count, channel, CHANNELS, COLUMN_RING)


@triton.jit(do_not_specialize=["count", "chunks"])
def read_kernel(
    gate,
    gate_row,
    gate_column,
    gate_norm,
    query_in,
    key_in,
    corrected_in,
    running_in,
    before_in,
    out,
    epsilon,
    count,
    chunks,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    EVERY: tl.constexpr,
    STAGES: tl.constexpr,
    SILU: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Grid (value_heads, chunks, rows). out [rows, count, value_heads · value_dim]."""
    head = tl.program_id(0)
    chunk = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    dtype: tl.constexpr = query_in.dtype.element_ty
    group = head // (VALUE_HEADS // KEY_HEADS)
    index = tl.arange(0, CHUNK)
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    padded = chunks * CHUNK
    lane = row * VALUE_HEADS + head
    # Long distances are added to the pointer, once; what is added to it for every element is short.
    query_in += ((row * KEY_HEADS + group) * padded + chunk * CHUNK) * KEY_DIM
    key_in += ((row * KEY_HEADS + group) * padded + chunk * CHUNK) * KEY_DIM
    corrected_in += (lane * padded + chunk * CHUNK) * VALUE_DIM
    running_in += lane * padded + chunk * CHUNK
    before_in += (lane * tl.cdiv(chunks, EVERY) + chunk // EVERY) * (KEY_DIM * VALUE_DIM)
    query = tl.load(query_in + index[:, None] * KEY_DIM + key_index[None, :])
    running = tl.load(running_in + index)
    lower = index[:, None] >= index[None, :]
    read = tl.zeros((CHUNK, VALUE_DIM), tl.float32)
    # `running` grows to what has decayed since the beginning of the block at hand.
    for back in tl.range(chunk % EVERY + 1, num_stages=STAGES):
        block = back * CHUNK
        key = tl.load(key_in - block * KEY_DIM + index[None, :] * KEY_DIM + key_index[:, None])
        corrected = tl.load(corrected_in - block * VALUE_DIM + index[:, None] * VALUE_DIM + value_index[None, :])
        theirs = tl.load(running_in - block + index)
        running += tl.where(back > 0, tl.load(running_in - block + (CHUNK - 1)), 0.0)
        seen = lower | (back > 0)
        apart = tl.where(seen, running[:, None] - theirs[None, :], 0.0)
        weights = tl.where(seen, tl.dot(query, key, input_precision=PRECISION) * tl.exp(apart), 0.0)
        read = tl.dot(weights.to(dtype), corrected, read, input_precision=PRECISION)
    before = tl.load(before_in + key_index[:, None] * VALUE_DIM + value_index[None, :])
    read += tl.dot(query, before, input_precision=PRECISION) * tl.exp(running)[:, None]

    scale = tl.rsqrt(tl.sum(read * read, 1) / VALUE_DIM + epsilon)
    gate += row * gate_row + chunk.to(tl.int64) * CHUNK * gate_column + head * VALUE_DIM
    out += ((row * count + chunk * CHUNK) * VALUE_HEADS + head) * VALUE_DIM
    inside = index[:, None] + 0 * value_index[None, :] < count - chunk * CHUNK
    opening = tl.load(gate + index[:, None] * gate_column + value_index[None, :], mask=inside, other=0.0)
    gated = read * scale[:, None] * tl.load(gate_norm + value_index)[None, :] * opened(opening.to(tl.float32), SILU)
    home = index[:, None] * (VALUE_HEADS * VALUE_DIM) + value_index[None, :]
    tl.store(out + home, gated.to(out.dtype.element_ty), mask=inside)
