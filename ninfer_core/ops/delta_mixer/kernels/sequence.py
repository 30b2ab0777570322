"""What a prefill computes from chunk to chunk, and what follows from it for every chunk again. Names as in
`ops.gated_delta.chunked`.

`scan_kernel` walks the chunks of one head with its memory in float32, a part of value_dim to each program; it leaves
the memory before every chunk and the corrected values V'. `read_kernel` takes a chunk and a value head: the read-out
and the gated norm.
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
    values = tl.load(qkv + column * qkv_column + channel[None, :], mask=wanted, other=0.0)
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
    PART: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Grid (value_dim / PART, value_heads, rows). `base` holds U and is overwritten with V'; before_out [rows,
    value_heads, chunks, key_dim, value_dim]; `memory` and `column_ring` are those of one layer."""
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
    square = key_index[:, None] * VALUE_DIM + value_index[None, :]
    home = memory + (slot * VALUE_HEADS + head) * (KEY_DIM * VALUE_DIM) + square
    keys = key_in + ((row * KEY_HEADS + group) * padded + index)[None, :] * KEY_DIM + key_index[:, None]
    pulls = pull_in + (lane * padded + index)[:, None] * KEY_DIM + key_index[None, :]
    bases = base + (lane * padded + index)[:, None] * VALUE_DIM + value_index[None, :]
    runnings = running_in + lane * padded
    befores = before_out + lane * chunks * (KEY_DIM * VALUE_DIM) + square
    held = tl.load(home)
    for chunk in tl.range(chunks, num_stages=STAGES):
        narrow = held.to(dtype)
        tl.store(befores + chunk * (KEY_DIM * VALUE_DIM), narrow)
        pull = tl.load(pulls + chunk * (CHUNK * KEY_DIM))
        key = tl.load(keys + chunk * (CHUNK * KEY_DIM))
        start = tl.load(bases + chunk * (CHUNK * VALUE_DIM)).to(tl.float32)
        running = tl.load(runnings + chunk * CHUNK + index)
        last = tl.load(runnings + chunk * CHUNK + (CHUNK - 1))
        corrected = start - tl.dot(pull, narrow, input_precision=PRECISION)
        tl.store(bases + chunk * (CHUNK * VALUE_DIM), corrected.to(dtype))
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
    column = chunk * CHUNK + index
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    padded = chunks * CHUNK
    place = (row * KEY_HEADS + group) * padded + column
    query = tl.load(query_in + place[:, None] * KEY_DIM + key_index[None, :])
    key = tl.load(key_in + place[None, :] * KEY_DIM + key_index[:, None])
    lane = row * VALUE_HEADS + head
    running = tl.load(running_in + lane * padded + column)
    square = key_index[:, None] * VALUE_DIM + value_index[None, :]
    before = tl.load(before_in + (lane * chunks + chunk) * (KEY_DIM * VALUE_DIM) + square)
    corrected = tl.load(corrected_in + (lane * padded + column)[:, None] * VALUE_DIM + value_index[None, :])
    lower = index[:, None] >= index[None, :]
    apart = tl.where(lower, running[:, None] - running[None, :], 0.0)
    weights = tl.where(lower, tl.dot(query, key, input_precision=PRECISION) * tl.exp(apart), 0.0)
    read = tl.dot(query, before, input_precision=PRECISION) * tl.exp(running)[:, None]
    read = tl.dot(weights.to(dtype), corrected, read, input_precision=PRECISION)

    scale = tl.rsqrt(tl.sum(read * read, 1) / VALUE_DIM + epsilon)
    inside = column[:, None] + 0 * value_index[None, :] < count
    width = head * VALUE_DIM + value_index[None, :]
    opening = tl.load(gate + row * gate_row + column[:, None] * gate_column + width, mask=inside, other=0.0)
    gated = read * scale[:, None] * tl.load(gate_norm + value_index)[None, :] * opened(opening.to(tl.float32), SILU)
    home = (row * count + column)[:, None] * (VALUE_HEADS * VALUE_DIM) + width
    tl.store(out + home, gated.to(out.dtype.element_ty), mask=inside)
