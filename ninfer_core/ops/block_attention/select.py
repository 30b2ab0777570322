"""Which attention of a block a device gets."""

from __future__ import annotations

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.block_attention.reference import ReferenceBlockAttention
from ninfer_core.ops.block_attention.shape import BlockAttention


def select(device: torch.device, kernels: Kernels) -> BlockAttention:
    """The attention of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return ReferenceBlockAttention()
    from ninfer_core.ops.block_attention.triton import TritonBlockAttention

    return TritonBlockAttention()
