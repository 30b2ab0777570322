"""Linear map through the matrix library of the device."""

from __future__ import annotations

import torch
from torch.nn import functional


def linear(x: torch.Tensor, weight: torch.Tensor, row_class: int = 0) -> torch.Tensor:
    """x [..., inputs], weight [outputs, inputs] -> [..., outputs]; see the package for `row_class`."""
    rows = x.numel() // x.shape[-1]
    if rows >= row_class:
        return functional.linear(x, weight)
    padded = functional.pad(x.reshape(rows, x.shape[-1]), (0, 0, 0, row_class - rows))
    return functional.linear(padded, weight)[:rows].reshape(*x.shape[:-1], weight.shape[0])
