"""The convolution over a block: see `ninfer_core.ops.block_conv`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, elements: int, activation: int, kernels: bool) -> int:
    """The kernel: its result. The reference: input, sum, factor, shifted input, product and new sum in float32; the
    result takes the place of one of them."""
    return elements * (activation if kernels else 6 * FLOAT32)
