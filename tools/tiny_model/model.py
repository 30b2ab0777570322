"""The hybrid network in plain torch, for training; parameter names are those of the published text models.

Forward takes packed rows: `positions` restart at 0 where a dialogue starts, and nothing leaks across that point.
Decoding lives in `decode.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tools.tiny_model.geometry import Geometry
from tools.tiny_model.mixers import Attention, GatedDeltaNet, Packing, ZeroCentredNorm


class MLP(nn.Module):
    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(geometry.hidden_size, geometry.intermediate_size, bias=False)
        self.up_proj = nn.Linear(geometry.hidden_size, geometry.intermediate_size, bias=False)
        self.down_proj = nn.Linear(geometry.intermediate_size, geometry.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Matrices of all experts; the names are those of the checkpoints."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        count, width, hidden = geometry.num_experts, geometry.intermediate_size, geometry.hidden_size
        self.gate_up_proj = nn.Parameter(torch.empty(count, 2 * width, hidden))
        self.down_proj = nn.Parameter(torch.empty(count, hidden, width))


class ExpertMLP(nn.Module):
    """The chosen experts and the shared one. Every expert is computed for every token: at this size that is cheap."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.per_token = geometry.num_experts_per_tok
        self.gate = nn.Linear(geometry.hidden_size, geometry.num_experts, bias=False)
        self.experts = Experts(geometry)
        self.shared_expert = MLP(replace(geometry, intermediate_size=geometry.shared_expert_intermediate_size))
        self.shared_expert_gate = nn.Linear(geometry.hidden_size, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        chances = self.gate(x).float().softmax(-1)
        best = chances.topk(self.per_token, dim=-1)
        shares = best.values / best.values.sum(-1, keepdim=True)
        weights = torch.zeros_like(chances).scatter(-1, best.indices, shares).to(x.dtype)
        gates, ups = (
            F.linear(x, self.experts.gate_up_proj.flatten(0, 1)).unflatten(-1, (weights.shape[-1], -1)).chunk(2, -1)
        )
        inner = (F.silu(gates) * ups * weights[..., None]).flatten(-2)
        routed = F.linear(inner, self.experts.down_proj.transpose(0, 1).flatten(1))
        return routed + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)


class Layer(nn.Module):
    def __init__(self, geometry: Geometry, kind: str) -> None:
        super().__init__()
        self.input_layernorm = ZeroCentredNorm(geometry.hidden_size)
        self.post_attention_layernorm = ZeroCentredNorm(geometry.hidden_size)
        # The checkpoint names the mixer after its kind, so only one of the two exists.
        if kind == "full_attention":
            self.self_attn = Attention(geometry)
        else:
            self.linear_attn = GatedDeltaNet(geometry)
        self.full = kind == "full_attention"
        self.mlp = ExpertMLP(geometry) if geometry.num_experts else MLP(geometry)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        mixer = self.self_attn if self.full else self.linear_attn
        x = x + mixer(self.input_layernorm(x), packing)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(geometry.vocab_size, geometry.hidden_size)
        self.layers = nn.ModuleList(Layer(geometry, kind) for kind in geometry.layer_types)
        self.norm = ZeroCentredNorm(geometry.hidden_size)


class TinyModel(nn.Module):
    """Tied embeddings; `model.` is the prefix the checkpoint uses."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        self.model = Trunk(geometry)
        for name, weight in self.named_parameters():
            if weight.dim() >= 2:
                residual = any(part in name for part in ("o_proj", "out_proj", "down_proj"))
                depth = math.sqrt(2 * len(geometry.layer_types)) if residual else 1.0
                spread = 0.02 if "embed" in name else 0.5 if "conv1d" in name else weight.shape[-1] ** -0.5 / depth
                nn.init.normal_(weight, std=spread)

    def forward(self, tokens: Tensor, positions: Tensor, chunk: int = 64) -> Tensor:
        """Logits [rows, length, vocab]; `length` must be a multiple of `chunk`."""
        return self.logits(self.hidden(tokens, positions, chunk)).unflatten(0, tokens.shape)

    def hidden(self, tokens: Tensor, positions: Tensor, chunk: int) -> Tensor:
        """What the head reads: the last residual after the final norm [rows * length, hidden]."""
        return self.model.norm(self.residuals(tokens, positions, chunk)[-1])

    def residuals(self, tokens: Tensor, positions: Tensor, chunk: int) -> list[Tensor]:
        """The stream after every layer, each [rows * length, hidden]; drafters read some of them."""
        packing = Packing.of(positions, chunk)
        x = self.model.embed_tokens(tokens.flatten())
        after: list[Tensor] = []
        for layer in self.model.layers:
            x = layer(x, packing)
            after.append(x)
        return after

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.model.embed_tokens.weight)
