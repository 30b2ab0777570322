"""Which linear map a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.linear.matrix import Matrix
from ninfer_core.ops.linear.reference import Norm, ReferenceLinear

COUNTERS = 1024
"""Blocks of outputs whose inputs may be shared."""


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

    def pair(
        self, x: torch.Tensor, matrix: Matrix, beside: Matrix, row_class: int = 0, *, norm: Norm | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Two maps of the same x, of which the second is small."""
        ...


def select(device: torch.device, kernels: Kernels) -> Linear:
    """What to call on `device`, chosen once, while a model is built: Triton on CUDA, unless the reference is asked
    for."""
    return ReferenceLinear() if device.type != "cuda" or kernels == "reference" else triton_route(device)


def triton_route(device: torch.device) -> Linear:
    """The route of a CUDA device, which the interpreter can run too."""
    from ninfer_core.ops.linear.triton import TritonLinear

    counters = torch.zeros(COUNTERS, dtype=torch.int32, device=device)
    return TritonLinear(counters)
