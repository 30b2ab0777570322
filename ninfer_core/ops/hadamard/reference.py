"""The Hadamard transform in plain torch."""

from __future__ import annotations

import torch


def hadamard(x: torch.Tensor) -> torch.Tensor:
    """x [..., n] -> float32 [..., n]."""
    width = x.shape[-1]
    assert width & (width - 1) == 0, f"{width} is no power of two"
    y = x.float()
    factor: float = width**-0.5
    for _ in range(width.bit_length() - 1):
        # Taking the lowest bit of the index as a pair and putting it back as the highest: after all stages every
        # bit has had its turn and is where it was.
        even, odd = y[..., 0::2], y[..., 1::2]
        y = torch.cat((even + odd, even - odd), dim=-1)
    return y * factor
