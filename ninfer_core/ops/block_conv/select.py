"""Which convolution over a block a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.block_conv.reference import block_conv


class BlockConv(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(
        self, x: torch.Tensor, base: torch.Tensor, delta: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor: ...


def select(device: torch.device, kernels: Kernels) -> BlockConv:
    """One launch on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return block_conv
    from ninfer_core.ops.block_conv import triton

    return triton.block_conv
