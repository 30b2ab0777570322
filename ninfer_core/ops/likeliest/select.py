"""Which search for the likeliest token a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.likeliest.reference import likeliest


class Likeliest(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(self, logits: torch.Tensor, token_ids: torch.Tensor | None) -> torch.Tensor: ...


def select(device: torch.device, kernels: Kernels) -> Likeliest:
    """The search of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return likeliest
    from ninfer_core.ops.likeliest import triton

    return triton.likeliest
