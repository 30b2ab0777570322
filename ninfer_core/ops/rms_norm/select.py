"""Which norm a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.rms_norm.reference import rms_norm


class RmsNorm(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor: ...


def select(device: torch.device, kernels: Kernels) -> RmsNorm:
    """The norm of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return rms_norm
    from ninfer_core.ops.rms_norm import triton

    return triton.rms_norm
