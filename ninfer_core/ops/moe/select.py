"""The routes of the expert layer, by device."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.linear.select import select as select_linear
from ninfer_core.ops.moe.reference import feed_forward
from ninfer_core.ops.moe.weights import ExpertWeights


class FeedForward(Protocol):
    """The layer on one device; the package says what it does."""

    def __call__(
        self, x: torch.Tensor, weights: ExpertWeights, row_class: int = 0, *, norm: Norm, residual: torch.Tensor
    ) -> torch.Tensor: ...


def select(device: torch.device, kernels: Kernels) -> FeedForward:
    """What to call on `device`: chosen once, while a model is built. Triton on CUDA, unless the reference is asked
    for."""
    if device.type != "cuda" or kernels == "reference":
        return feed_forward
    from ninfer_core.ops.moe.routes import kernel_routes

    return kernel_routes(device, select_linear(device, kernels))
