"""Gated norm in plain torch."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional

GateActivation = Literal["silu", "sigmoid"]


def gated_rms_norm(
    x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, epsilon: float, activation: GateActivation
) -> torch.Tensor:
    """x, gate [..., width], weight [width] -> [..., width] in the dtype of gate."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    opening = functional.silu(gate.float()) if activation == "silu" else torch.sigmoid(gate.float())
    return (wide * scale * weight.float() * opening).to(gate.dtype)
