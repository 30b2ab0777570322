"""Inputs of the mixer, apart: what a layer's projection gives, what the layer is made of, what its sequences carry."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.gated_rms_norm import GateActivation


@dataclass(frozen=True, slots=True)
class MixerColumns:
    """Columns of one layer as they leave the input projection; see the package for shapes."""

    qkv: torch.Tensor
    gate: torch.Tensor
    b: torch.Tensor
    a: torch.Tensor


@dataclass(frozen=True, slots=True)
class MixerWeights:
    """One layer.

    conv [channels, width], a_log and dt_bias [value_heads], gate_norm [value_dim], all float32 and dense. `epsilon`
    is that of the norm, `activation` that of its gate. Consecutive value heads share a key head.
    """

    conv: torch.Tensor
    a_log: torch.Tensor
    dt_bias: torch.Tensor
    gate_norm: torch.Tensor
    epsilon: float
    activation: GateActivation
    key_heads: int
    key_dim: int

    @property
    def value_heads(self) -> int:
        return self.a_log.shape[0]

    @property
    def value_dim(self) -> int:
        return self.gate_norm.shape[0]

    @property
    def key_width(self) -> int:
        """Channels of all queries, and of all keys."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """Channels of all values, and of the result."""
        return self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class MixerState:
    """All layers and slots.

    memory  [layers, slots, value_heads, key_dim, value_dim]   float32
    column  [layers, slots, width − 1 + 2 W, channels]         activation dtype
    key     [layers, slots, 2 W, key_heads, key_dim]           float32
    update  [layers, slots, 2 W, value_heads, value_dim]       float32
    decay   [layers, slots, 2 W, value_heads]                  float32

    W is the columns of the largest round. All are dense.
    """

    memory: torch.Tensor
    column: torch.Tensor
    key: torch.Tensor
    update: torch.Tensor
    decay: torch.Tensor
