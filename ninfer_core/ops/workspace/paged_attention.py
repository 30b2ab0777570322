"""Paged attention: see `ninfer_core.ops.paged_attention`."""

from __future__ import annotations

from ninfer_core.ops.workspace import BOOL, FLOAT32, INT64

DECODE_SPLIT_TOKENS = 256
PREFILL_SPLIT_TOKENS = 512
"""Context tokens that are looked at at once."""


HEAD_DIMS = (32, 64, 128, 256)
"""Head dimensions that the kernels are right for. They were measured with 128 and 256."""

SPLIT_PROGRAMS = 256
"""Programs of a decode kernel that the heads and splits of one long row may be: up to two for each multiprocessor of an
H200, which has 132."""
SPLIT_COLUMNS = 4
"""Columns of a round up to which a row is cut that often; with more there is more work in each."""


def has_kernels(head_dim: int, activation_dtype: str) -> bool:
    """Whether there are kernels for such heads, of a format with device functions."""
    return head_dim in HEAD_DIMS and activation_dtype == "bfloat16"


def is_narrow(layout_bytes: int, head_dim: int) -> bool:
    """Whether a format stores elements in less than 16 bits; `layout_bytes` for one token of one KV head."""
    return layout_bytes < 4 * head_dim


def unpacked_bytes(*, context_tokens: int, kv_heads: int, head_dim: int, activation: int) -> int:
    """A narrow format's keys and values of one row and layer, decoded once for a chunk. The core counts these itself:
    a family does not know the format."""
    return 2 * context_tokens * kv_heads * head_dim * activation


def most_splits(*, kv_heads: int, columns: int) -> int:
    """The most splits, a power of two, that decode kernels cut a row into."""
    programs = SPLIT_PROGRAMS // max(1, -(-columns // SPLIT_COLUMNS))
    return 1 << max(0, (programs // kv_heads).bit_length() - 1)


def decode_bytes(*, rows: int, columns: int, query_heads: int, kv_heads: int, head_dim: int, activation: int) -> int:
    """A round, by the reference or by the kernels, whichever needs more."""
    sizes = {"rows": rows, "columns": columns, "query_heads": query_heads, "kv_heads": kv_heads, "head_dim": head_dim}
    reference = _reference_bytes(**sizes, split_tokens=DECODE_SPLIT_TOKENS, activation=activation)
    return max(reference, kernel_bytes(**sizes, activation=activation, prefill=False))


def kernel_bytes(
    *, rows: int, columns: int, query_heads: int, kv_heads: int, head_dim: int, activation: int, prefill: bool
) -> int:
    """A chunk or a round by the kernels: queries, results, and of a round every split's sums. What a prefill unpacks
    of a narrow format counts for itself."""
    sizes = {"rows": rows, "columns": columns, "query_heads": query_heads, "head_dim": head_dim}
    sums = 0 if prefill else split_bytes(**sizes, kv_heads=kv_heads)
    return sums + 2 * rows * columns * query_heads * head_dim * activation


def split_bytes(*, rows: int, columns: int, query_heads: int, kv_heads: int, head_dim: int) -> int:
    """The sums of every split of a round, its largest score and its weight."""
    return rows * columns * query_heads * most_splits(kv_heads=kv_heads, columns=columns) * (head_dim + 2) * FLOAT32


def prefill_bytes(*, rows: int, columns: int, query_heads: int, kv_heads: int, head_dim: int, activation: int) -> int:
    """A chunk, by the reference: the kernels have queries and results alone, and what they unpack."""
    return _reference_bytes(
        rows=rows,
        columns=columns,
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        split_tokens=PREFILL_SPLIT_TOKENS,
        activation=activation,
    )


def _reference_bytes(
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
