"""Gated norm in plain torch."""

from __future__ import annotations

from typing import Literal

import torch

from ninfer_core.ops.activation import sigmoid, silu

GateActivation = Literal["silu", "sigmoid"]


def gated_rms_norm(
    x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, epsilon: float, activation: GateActivation
) -> torch.Tensor:
    """x, gate [..., width], weight [width] -> [..., width] in the dtype of gate."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    opening = silu(gate.float()) if activation == "silu" else sigmoid(gate.float())
    return (wide * scale * weight.float() * opening).to(gate.dtype)
