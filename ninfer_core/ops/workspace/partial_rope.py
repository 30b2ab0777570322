"""Rotary positions: see `ninfer_core.ops.partial_rope`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64


def angle_bytes(*, tokens: int, pairs: int) -> int:
    """Cosine, sine and the positions they are of: alive for a whole unit of work."""
    return tokens * pairs * (2 * FLOAT32 + INT64)


def workspace_bytes(*, elements: int, activation: int) -> int:
    """Halves and products in float32, the rotated part and the result, for `elements` of queries and keys."""
    return elements * (2 * activation + 4 * FLOAT32)
