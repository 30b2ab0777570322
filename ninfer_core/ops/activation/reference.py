"""Activations in plain torch, from operations that treat every element alike."""

from __future__ import annotations

import torch


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """Into (0, 1); 0 where e^−x overflows."""
    return (torch.exp(-x) + 1.0).reciprocal()


def silu(x: torch.Tensor) -> torch.Tensor:
    """x · sigmoid(x)."""
    return x / (torch.exp(-x) + 1.0)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + e^x), without overflow."""
    return x.clamp_min(0.0) + torch.log1p(torch.exp(-x.abs()))
