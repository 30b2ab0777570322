"""Paged attention: see `ninfer_core.ops.paged_attention`."""

from __future__ import annotations

from ninfer_core.ops.workspace import BOOL, FLOAT32, INT64

DECODE_SPLIT_TOKENS = 256
PREFILL_SPLIT_TOKENS = 512
"""Context tokens that are looked at at once."""


def workspace_bytes(
    *, rows: int, columns: int, query_heads: int, kv_heads: int, head_dim: int, split_tokens: int, activation: int
) -> int:
    """Queries as given and scaled, three sums, the pages of a split as decoded, and its scores; the context does not
    count, since it is walked split by split."""
    tokens, width = rows * columns, query_heads * head_dim
    queries = 2 * tokens * width * FLOAT32
    sums = 3 * tokens * width * FLOAT32
    pages = rows * split_tokens * kv_heads * head_dim * (4 * FLOAT32 + 2 * activation)
    scores = tokens * query_heads * split_tokens * (3 * FLOAT32 + 2 * BOOL)
    running = tokens * query_heads * (6 * FLOAT32 + 2 * INT64)  # maximum, total, what is kept of them; last places
    return queries + sums + pages + scores + running
