"""The convolution over a block: see `ninfer_core.ops.block_conv`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, elements: int) -> int:
    """Input, sum, factor, shifted input, product and new sum in float32; the result takes the place of one of them."""
    return 6 * elements * FLOAT32
