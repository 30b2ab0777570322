"""Which walk a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.draft_walk.reference import Codebooks, LogitTransform, Walk, draft_walk


class DraftWalk(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(
        self,
        logits: torch.Tensor,
        proposed_ids: torch.Tensor | None,
        states: torch.Tensor,
        codebooks: Codebooks,
        transform: LogitTransform,
        anchors: torch.Tensor,
        positions: torch.Tensor,
        temperature: torch.Tensor,
        seeds: torch.Tensor,
    ) -> Walk: ...


def select(device: torch.device, kernels: Kernels) -> DraftWalk:
    """The walk of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return draft_walk
    from ninfer_core.ops.draft_walk.triton import TritonWalk

    return TritonWalk()
