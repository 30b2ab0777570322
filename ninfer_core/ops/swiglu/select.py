"""Which gated activation a device gets."""

from __future__ import annotations

from typing import Literal, Protocol

import torch

from ninfer_core.ops.swiglu.reference import swiglu


class Swiglu(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


def select(device: torch.device, kernels: Literal["auto", "reference"]) -> Swiglu:
    """The activation of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return swiglu
    from ninfer_core.ops.swiglu import triton

    return triton.swiglu
