"""The convolution over a block in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional


def block_conv(
    x: torch.Tensor, base: torch.Tensor, delta: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor:
    """x [rows, columns, width] -> [rows, columns, width]; see the package."""
    columns, width = x.shape[1:]
    taps, groups = delta.shape[2:]
    wide = x.float()
    total = torch.zeros_like(wide) if residual is None else residual.float()
    for tap in range(taps):
        factor = base[tap].float() + delta[:, :, tap].float().repeat_interleave(width // groups, dim=-1)
        total = total + factor * functional.pad(wide, (0, 0, tap, 0))[:, :columns]
    return total.to(x.dtype)
