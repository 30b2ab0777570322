"""Attention of a block: see `ninfer_core.ops.block_attention`."""

from __future__ import annotations

from ninfer_core.ops.workspace import BOOL, FLOAT32, INT64

SPLIT_TOKENS = 128
"""Context tokens of a program of the kernel, at least."""
MOST_SPLITS = 63
"""Programs that a context is cut into, at most."""


def attend_bytes(
    *,
    rows: int,
    columns: int,
    query_heads: int,
    kv_heads: int,
    head_dim: int,
    ring_tokens: int,
    activation: int,
    kernels: bool,
) -> int:
    """Kernels: sums of every split, its largest score and its weight, and the result. The reference: keys and values of
    all a row sees, as they are and twice in float32; scores three times; queries and results."""
    if kernels:
        splits = min(MOST_SPLITS, -(-ring_tokens // SPLIT_TOKENS)) + 1
        heads = rows * columns * query_heads
        return heads * (splits * (head_dim + 2) * FLOAT32 + head_dim * activation)
    tokens = rows * (ring_tokens + columns)
    context = tokens * kv_heads * head_dim * (2 * activation + 4 * FLOAT32)
    queries = rows * columns * query_heads * head_dim
    scores = tokens * columns * (query_heads * 3 * FLOAT32 + 4 * BOOL) + tokens * INT64
    return context + scores + queries * 8 * FLOAT32


def store_bytes(*, rows: int, columns: int, kv_heads: int, head_dim: int) -> int:
    """Of one layer keys and values, normed, rotated and merged, for as many columns as a ring can take. The kernel
    needs nothing."""
    return rows * columns * kv_heads * head_dim * 10 * FLOAT32
