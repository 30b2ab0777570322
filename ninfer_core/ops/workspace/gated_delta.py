"""The gated delta rule: see `ninfer_core.ops.gated_delta`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32

CHUNK_COLUMNS = 64
"""Columns that the chunked form solves for at once."""


def prefill_bytes(*, rows: int, columns: int, value_heads: int, key_dim: int, value_dim: int) -> int:
    """The chunked form: per-head columns in float32, squares of every chunk, and the memory."""
    padded = rows * -(-columns // CHUNK_COLUMNS) * CHUNK_COLUMNS * value_heads
    key = 8 * padded * key_dim  # query, key, both grown, both weighted by beta, and their sources
    value = 4 * padded * value_dim  # value, weighted value, output, output as returned
    solved = 2 * padded * (key_dim + value_dim)  # right side and solution
    squares = 5 * padded * CHUNK_COLUMNS  # exponents, ratio, products, mixing, read
    memory = 3 * rows * value_heads * key_dim * value_dim
    return (key + value + solved + squares + memory) * FLOAT32


def decode_bytes(*, rows: int, columns: int, value_heads: int, key_dim: int, value_dim: int) -> int:
    """The recurrent form: memory as read, decayed, outer product, sum and choice; a little per column."""
    memory = 5 * rows * value_heads * key_dim * value_dim
    per_column = 6 * rows * columns * value_heads * (key_dim + value_dim)
    return (memory + per_column) * FLOAT32
