"""Gated activation in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.ops.activation import silu


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """x [..., gate ‖ up] -> [..., width]."""
    gate, up = x.chunk(2, dim=-1)
    return (silu(gate.float()) * up.float()).to(x.dtype)
