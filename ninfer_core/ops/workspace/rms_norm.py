"""The zero-centred norm: see `ninfer_core.ops.rms_norm`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, elements: int) -> int:
    """Input, its square, scaled and weighted, in float32; the result takes the place of one of them."""
    return 4 * elements * FLOAT32
