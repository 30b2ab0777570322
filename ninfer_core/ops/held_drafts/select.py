"""Which way of holding drafts a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.held_drafts.reference import HeldDrafts, hold_drafts


class HoldDrafts(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(
        self,
        token_ids: torch.Tensor,
        meant: torch.Tensor | None,
        law_ids: torch.Tensor | None,
        anchors: torch.Tensor,
        token_domain: int,
    ) -> HeldDrafts: ...


def select(device: torch.device, kernels: Kernels) -> HoldDrafts:
    """One launch on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return hold_drafts
    from ninfer_core.ops.held_drafts import triton

    return triton.hold_drafts
