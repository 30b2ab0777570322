"""The choice of a block's drafts: see `ninfer_core.ops.draft_walk`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64

CHOICES = 16
"""Candidates of a position."""


def workspace_bytes(*, rows: int, drafts: int, proposed: int, rank: int, kernels: bool) -> int:
    """Kernels: a number of 8 bytes for every few dozen logits, scores of every pair of candidates, laws. The reference:
    logits in float32; bits, order and keys of the selection in int64; of a step the states, and the codes of the
    candidates three times over in float32."""
    if kernels:
        return rows * drafts * (proposed + CHOICES * CHOICES * FLOAT32 + (CHOICES + 1) * (2 * FLOAT32 + INT64))
    selection = rows * drafts * proposed * (2 * FLOAT32 + 5 * INT64)
    step = rows * (CHOICES + 1) * rank * 3 * FLOAT32
    laws = rows * drafts * CHOICES * (6 * FLOAT32 + 4 * INT64)
    return selection + step + laws
