"""Which computation of angles a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.partial_rope.reference import rope_angles


class RopeAngles(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(
        self,
        positions: torch.Tensor,
        inverse_frequency: torch.Tensor,
        axis: torch.Tensor,
        attention_factor: float = 1.0,
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


def select(device: torch.device, kernels: Kernels) -> RopeAngles:
    """One launch on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return rope_angles
    from ninfer_core.ops.partial_rope import triton

    return triton.rope_angles
