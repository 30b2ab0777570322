"""The gated norm: see `ninfer_core.ops.gated_rms_norm`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, elements: int, activation: int) -> int:
    """Scaled, weighted, the open gate and their product in float32, and the result. The input is float32 already."""
    return elements * (4 * FLOAT32 + activation)
