"""Acceptance of drafts: see `ninfer_core.ops.accept`."""

from __future__ import annotations

from ninfer_core.ops.workspace import BOOL, FLOAT32, sample


def workspace_bytes(*, rows: int, columns: int, vocabulary_rows: int) -> int:
    """What `ops.sample` needs for every column; logits in float32, counters with the drafts before every column and
    their float32 form."""
    tokens = rows * columns
    widened = tokens * vocabulary_rows * (2 * FLOAT32 + BOOL)
    return widened + sample.workspace_bytes(rows=tokens, vocabulary_rows=vocabulary_rows)
