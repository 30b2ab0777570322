"""Which beginning of a round a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.round_start.reference import RoundInputs, SlotState, start_round


class StartRound(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(self, inputs: torch.Tensor, state: SlotState, columns: int) -> RoundInputs: ...


def select(device: torch.device, kernels: Kernels) -> StartRound:
    """One launch on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return start_round
    from ninfer_core.ops.round_start import triton

    return triton.start_round
