"""The choice of the next token: see `ninfer_core.ops.sample`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64


def workspace_bytes(*, rows: int, vocabulary_rows: int) -> int:
    """Counts, penalties and adjusted logits in float32; bits, order and keys of the selection in int64. The logits
    themselves are the argument."""
    return rows * vocabulary_rows * (5 * FLOAT32 + 5 * INT64)
