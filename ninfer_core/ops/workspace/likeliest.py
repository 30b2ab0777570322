"""The likeliest token: see `ninfer_core.ops.likeliest`."""

from __future__ import annotations

from ninfer_core.ops.workspace import INT64

BLOCK_LOGITS = 1024
"""That one program of the kernel looks at. Of a vocabulary of 262,144 tokens there are then 256 blocks, the best of
which one program looks through at once."""


def workspace_bytes(*, columns: int, proposed: int) -> int:
    """The best key of every block of every column, and two numbers of it: where it is and which token."""
    return columns * (-(-proposed // BLOCK_LOGITS) + 2) * INT64
