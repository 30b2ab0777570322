"""The causal convolution: see `ninfer_core.ops.causal_conv`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, rows: int, columns: int, channels: int, width: int, activation: int) -> int:
    """State and columns, apart and in one window, and sums of its taps in float32."""
    windows = 2 * rows * (columns + width) * channels * activation
    return windows + 4 * rows * columns * channels * FLOAT32
