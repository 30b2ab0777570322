"""Partial rotary positions in plain torch."""

from __future__ import annotations

import torch


def rope_angles(
    positions: torch.Tensor, inverse_frequency: torch.Tensor, axis: torch.Tensor, attention_factor: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """positions [3, rows, columns] -> cos and sin, each float32 [rows, columns, pairs]."""
    chosen = positions.index_select(0, axis).movedim(0, -1)
    angle = chosen.float() * inverse_frequency
    return torch.cos(angle) * attention_factor, torch.sin(angle) * attention_factor


def partial_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [rows, columns, heads, head_dim] with its first 2·pairs elements rotated."""
    pairs = cos.shape[-1]
    first, second = x[..., :pairs].float(), x[..., pairs : 2 * pairs].float()
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return torch.cat((rotated.to(x.dtype), x[..., 2 * pairs :]), dim=-1)
