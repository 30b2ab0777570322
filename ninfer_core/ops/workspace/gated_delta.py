"""The gated delta rule: see `ninfer_core.ops.gated_delta`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32

CHUNK_COLUMNS = 64
"""Columns that the chunked form solves for at once."""
MEMORY_EVERY = 2
"""Chunks that share a memory which the scan of a prefill leaves."""
CONV_WIDTH = 4
"""Of the convolutions that kernels are written for."""
LEAST_PREFILL_HEAD = 64
"""Kernels of a prefill are compiled wrongly below: with heads of 32 Triton 3.6 gives numbers that have nothing to do
with the input (on an H200, with four warps; right with one, and right from 64 on)."""


def decodes_by_kernels(*, conv_width: int, key_dim: int, value_dim: int) -> bool:
    """Whether kernels take the rounds of such a layer."""
    return conv_width == CONV_WIDTH and _is_power_of_two(key_dim) and _is_power_of_two(value_dim)


def prefills_by_kernels(*, conv_width: int, key_dim: int, value_dim: int) -> bool:
    """Whether kernels take the prefills of such a layer, in 16 bits."""
    wide = min(key_dim, value_dim) >= LEAST_PREFILL_HEAD
    return wide and decodes_by_kernels(conv_width=conv_width, key_dim=key_dim, value_dim=value_dim)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def prefill_bytes(*, rows: int, columns: int, value_heads: int, key_dim: int, value_dim: int) -> int:
    """The chunked form: per-head columns in float32, squares of every chunk, and the memory."""
    padded = rows * -(-columns // CHUNK_COLUMNS) * CHUNK_COLUMNS * value_heads
    key = 8 * padded * key_dim  # query, key, both grown, both weighted by beta, and their sources
    value = 4 * padded * value_dim  # value, weighted value, output, output as returned
    solved = 2 * padded * (key_dim + value_dim)  # right side and solution
    squares = 5 * padded * CHUNK_COLUMNS  # exponents, ratio, products, mixing, read
    memory = 3 * rows * value_heads * key_dim * value_dim
    return (key + value + solved + squares + memory) * FLOAT32


def kernel_prefill_bytes(
    *, rows: int, columns: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, activation: int
) -> int:
    """What the kernels of a prefill hand on: queries and keys, what is solved for of every value head, decays, and
    memories along the way. The result of the mixer counts for itself."""
    chunks = -(-columns // CHUNK_COLUMNS)
    padded = rows * chunks * CHUNK_COLUMNS
    mixed = padded * (2 * key_heads * key_dim + value_heads * (key_dim + value_dim)) * activation
    memories = rows * value_heads * -(-chunks // MEMORY_EVERY) * key_dim * value_dim * activation
    return mixed + padded * value_heads * FLOAT32 + memories


def decode_bytes(*, rows: int, columns: int, value_heads: int, key_dim: int, value_dim: int) -> int:
    """The recurrent form: memory as read, decayed, outer product, sum and choice; a little per column."""
    memory = 5 * rows * value_heads * key_dim * value_dim
    per_column = 6 * rows * columns * value_heads * (key_dim + value_dim)
    return (memory + per_column) * FLOAT32
