"""Gated activation in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """x [..., gate ‖ up] -> [..., width]."""
    gate, up = x.chunk(2, dim=-1)
    return (functional.silu(gate.float()) * up.float()).to(x.dtype)
