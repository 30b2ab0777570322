"""Inputs of the gated delta rule, and the arithmetic both of its forms begin with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.activation import sigmoid, softplus

L2_EPSILON = 1e-6
"""Added to the sum of squares, inside the root (qwen-hybrid: not to the mean, not outside)."""


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """Input columns of one layer; see the package for shapes."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    a_log: torch.Tensor
    dt_bias: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeltaRecords:
    """What decode columns leave for the fold; see the package for shapes."""

    key: torch.Tensor
    update: torch.Tensor
    decay: torch.Tensor


def normalised(columns: DeltaColumns) -> tuple[torch.Tensor, torch.Tensor]:
    """Query (scaled) and key, float32 [rows, columns, key_heads, key_dim]."""
    query, key = _unit(columns.query.float()), _unit(columns.key.float())
    return query * columns.query.shape[-1] ** -0.5, key


def gates(columns: DeltaColumns) -> tuple[torch.Tensor, torch.Tensor]:
    """Log decay g and beta, float32 [rows, columns, value_heads]."""
    decay = -torch.exp(columns.a_log.float()) * softplus(columns.a.float() + columns.dt_bias.float())
    return decay, sigmoid(columns.b.float())


def per_value_head(x: torch.Tensor, value_heads: int) -> torch.Tensor:
    """[..., key_heads, key_dim] -> [..., value_heads, key_dim]: consecutive value heads share a key head."""
    return x.repeat_interleave(value_heads // x.shape[-2], dim=-2)


def _unit(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPSILON)
