"""What a prefill can compute of every chunk of 64 columns by itself: convolution and norms first, then gates and the
solution of the chunk's triangular system. `ops.gated_delta.chunked` has the formulas and the names.

The system is solved in blocks of 16: those on the diagonal by substitution, all four at once, and what is below them
by products. With Δ the diagonal blocks and L the rest of I + A, X = Δ⁻¹ L is strictly lower by blocks, so X⁴ = 0 and

    (I + A)⁻¹ = (I + X)⁻¹ Δ⁻¹ = (I − X + X² − X³) Δ⁻¹
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.delta_mixer.kernels.arithmetic import L2_EPSILON, log_decay
from ninfer_core.ops.kernels.activation import sigmoid, silu
from ninfer_core.ops.workspace.gated_delta import CHUNK_COLUMNS

CHUNK: tl.constexpr = tl.constexpr(CHUNK_COLUMNS)
BLOCK: tl.constexpr = tl.constexpr(16)


@triton.jit
def _convolved(
    qkv, qkv_column, ring, conv, slot, length, first, index, count, channel, CHANNELS: tl.constexpr, RING: tl.constexpr
):
    """[columns, channels of the head], float32 after the rounding of `ops.causal_conv`; zeros behind the last column.
    The tile has the columns `first` + index of the call, and `qkv` points to the first of them; columns before the call
    come from the ring, for program 0 of axis 1 alone: a tile holds more than three."""
    total = tl.zeros((index.shape[0], channel.shape[0]), tl.float32)
    for tap in tl.static_range(4):
        near = index[:, None] + (tap - 3) + 0 * channel[None, :]
        wanted = (first + near >= 0) & (first + near < count)
        new = tl.load(qkv + near * qkv_column + channel[None, :], mask=wanted, other=0.0)
        total += new.to(tl.float32) * tl.load(conv + channel * 4 + tap)[None, :]
    if tl.program_id(1) == 0:
        for tap in tl.static_range(3):
            at = index[:, None] + (tap - 3) + 0 * channel[None, :]
            place = slot * RING + (length + at) % RING
            wanted = (at < 0) & (length + at >= 0)
            older = tl.load(ring + place * CHANNELS + channel[None, :], mask=wanted, other=0.0)
            total += older.to(tl.float32) * tl.load(conv + channel * 4 + tap)[None, :]
    rounded = silu(total).to(qkv.dtype.element_ty).to(tl.float32)
    return tl.where(first + index[:, None] + 0 * channel[None, :] < count, rounded, 0.0)


@triton.jit(do_not_specialize=["slots", "lengths", "count", "padded"])
def convolve_kernel(
    qkv,
    qkv_row,
    qkv_column,
    conv,
    column_ring,
    slots,
    lengths,
    query_out,
    key_out,
    value_out,
    count,
    padded,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMN_RING: tl.constexpr,
    TILE: tl.constexpr,
):
    """Grid (2 · key_heads + value_heads, padded / TILE, rows): a head of queries, keys or values; `padded` is a
    multiple of the chunk. query_out, key_out [rows, key_heads, padded, key_dim], normalised, the query scaled;
    value_out [rows, value_heads, padded, value_dim]."""
    unit = tl.program_id(0)
    row = tl.program_id(2).to(tl.int64)
    CHANNELS: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    slot = tl.load(slots + row)
    length = tl.load(lengths + row).to(tl.int32)
    first = tl.program_id(1) * TILE
    index = tl.arange(0, TILE)
    column = first + index
    # Long distances are added to the pointer, once; what is added to it for every element is short.
    qkv += row * qkv_row + first.to(tl.int64) * qkv_column
    if unit < 2 * KEY_HEADS:
        within = tl.arange(0, KEY_DIM)
        channel = unit * KEY_DIM + within
        mixed = _convolved(
            qkv, qkv_column, column_ring, conv, slot, length, first, index, count, channel, CHANNELS, COLUMN_RING
        )  # fmt: skip
        scale = tl.rsqrt(tl.sum(mixed * mixed, 1) + L2_EPSILON)
        home = (row * KEY_HEADS + unit % KEY_HEADS) * padded * KEY_DIM + (column[:, None] * KEY_DIM + within[None, :])
        if unit < KEY_HEADS:
            tl.store(query_out + home, (mixed * (scale * (KEY_DIM**-0.5))[:, None]).to(query_out.dtype.element_ty))
        else:
            tl.store(key_out + home, (mixed * scale[:, None]).to(key_out.dtype.element_ty))
    else:
        within = tl.arange(0, VALUE_DIM)
        head = unit - 2 * KEY_HEADS
        channel = 2 * KEY_HEADS * KEY_DIM + head * VALUE_DIM + within
        mixed = _convolved(
            qkv, qkv_column, column_ring, conv, slot, length, first, index, count, channel, CHANNELS, COLUMN_RING
        )  # fmt: skip
        home = (row * VALUE_HEADS + head) * padded * VALUE_DIM + (column[:, None] * VALUE_DIM + within[None, :])
        tl.store(value_out + home, mixed.to(value_out.dtype.element_ty))


@triton.jit
def _inverse(mixing, PRECISION: tl.constexpr):
    """(I + mixing)⁻¹ for a strictly lower triangular mixing [64, 64]."""
    BLOCKS: tl.constexpr = CHUNK // BLOCK
    across = tl.arange(0, BLOCKS)
    diagonal = across[:, None, None, None] == across[None, None, :, None]
    blocks = tl.sum(tl.where(diagonal, tl.reshape(mixing, (BLOCKS, BLOCK, BLOCKS, BLOCK)), 0.0), 2)
    line = tl.arange(0, BLOCK)[None, :, None]
    place = tl.arange(0, BLOCK)[None, None, :]
    solved = tl.where(line == place, 1.0, 0.0) + 0.0 * blocks
    # Row j of the inverse is done when the rows below it have lost what they hold of the rows above.
    for j in range(BLOCK - 1):
        column = tl.sum(tl.where(place == j, blocks, 0.0), 2)
        row = tl.sum(tl.where(line == j, solved, 0.0), 1)
        solved -= column[:, :, None] * row[:, None, :]
    spread = tl.where(diagonal, tl.broadcast_to(solved[:, :, None, :], (BLOCKS, BLOCK, BLOCKS, BLOCK)), 0.0)
    inner = tl.reshape(spread, (CHUNK, CHUNK))

    index = tl.arange(0, CHUNK)
    below = tl.where((index[:, None] // BLOCK) > (index[None, :] // BLOCK), mixing, 0.0)
    x = tl.dot(inner, below, input_precision=PRECISION)
    square = tl.dot(x, x, input_precision=PRECISION)
    cube = tl.dot(x, square, input_precision=PRECISION)
    identity = tl.where(index[:, None] == index[None, :], 1.0, 0.0)
    return tl.dot(identity - x + square - cube, inner, input_precision=PRECISION)


@triton.jit(do_not_specialize=["count", "chunks"])
def solve_kernel(
    b,
    b_row,
    b_column,
    a,
    a_row,
    a_column,
    a_log,
    dt_bias,
    key_in,
    base,
    pull_out,
    running_out,
    count,
    chunks,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Grid (value_heads, chunks, rows).

    base [rows, value_heads, chunks · 64, value_dim] holds the values and is overwritten with U; pull_out (W) [rows,
    value_heads, chunks · 64, key_dim]; running_out (G) [rows, value_heads, chunks · 64] float32.
    """
    head = tl.program_id(0)
    chunk = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    dtype: tl.constexpr = key_in.dtype.element_ty
    index = tl.arange(0, CHUNK)
    column = chunk * CHUNK + index
    key_index = tl.arange(0, KEY_DIM)
    value_index = tl.arange(0, VALUE_DIM)
    padded = chunks * CHUNK
    group = head // (VALUE_HEADS // KEY_HEADS)
    # Long distances are added to the pointer, once; what is added to it for every element is short.
    key_in += ((row * KEY_HEADS + group) * padded + chunk * CHUNK) * KEY_DIM
    first = (row * VALUE_HEADS + head) * padded + chunk * CHUNK
    key = tl.load(key_in + index[:, None] * KEY_DIM + key_index[None, :])
    inside = column < count
    far = column.to(tl.int64)
    rate = tl.load(a + row * a_row + far * a_column + head, mask=inside, other=0.0).to(tl.float32)
    strength = tl.load(b + row * b_row + far * b_column + head, mask=inside, other=0.0).to(tl.float32)
    decay = log_decay(rate, tl.load(a_log + head), tl.load(dt_bias + head))
    running = tl.cumsum(tl.where(inside, decay, 0.0), 0)
    beta = tl.where(inside, sigmoid(strength), 0.0)
    lower = index[:, None] > index[None, :]
    # Masked before the exponential: above the diagonal it would overflow.
    apart = tl.where(lower, running[:, None] - running[None, :], 0.0)
    products = tl.dot(key, tl.trans(key), input_precision=PRECISION)
    mixing = tl.where(lower, beta[:, None] * products * tl.exp(apart), 0.0)
    # The weights go to the columns of the solution, so that values and keys are multiplied as they are.
    solution = _inverse(mixing, PRECISION) * beta[None, :]
    home = base + first * VALUE_DIM + (index[:, None] * VALUE_DIM + value_index[None, :])
    tl.store(home, tl.dot(solution.to(dtype), tl.load(home), input_precision=PRECISION).to(dtype))
    pull = tl.dot((solution * tl.exp(running)[None, :]).to(dtype), key, input_precision=PRECISION)
    tl.store(pull_out + first * KEY_DIM + (index[:, None] * KEY_DIM + key_index[None, :]), pull.to(dtype))
    tl.store(running_out + first + index, running)
