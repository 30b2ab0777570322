"""The routes of a linear map, by device."""

from __future__ import annotations

from typing import Literal, Protocol

import torch

from ninfer_core.ops.linear.matrix import Matrix
from ninfer_core.ops.linear.reference import Norm, linear

Kernels = Literal["auto", "reference"]


class Linear(Protocol):
    """The operation on one device; the package says what it does."""

    def __call__(
        self,
        x: torch.Tensor,
        matrix: Matrix,
        row_class: int = 0,
        *,
        norm: Norm | None = None,
        residual: torch.Tensor | None = None,
        gated: bool = False,
    ) -> torch.Tensor: ...


def select(device: torch.device, kernels: Kernels) -> Linear:
    """What to call on `device`: chosen once, while a model is built."""
    return linear
