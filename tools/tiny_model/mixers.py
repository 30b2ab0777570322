"""What mixes tokens in the hybrid network, and the norms: attention, the gated delta rule, and how rows are packed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tools.tiny_model.delta import chunked_delta
from tools.tiny_model.geometry import Geometry

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Packing:
    """What the layers must know about a batch of packed rows; computed once per batch.

    Tokens are flat, row after row, so that rows of another length are the same work for everything but the mixers.
    """

    positions: Tensor  # [rows * length]
    fresh: Tensor  # [rows, chunks]
    visible: Tensor  # [rows, 1, length, length]
    chunk: int

    @classmethod
    def of(cls, positions: Tensor, chunk: int) -> Packing:
        length = positions.shape[1]
        dialogue = (positions == 0).cumsum(dim=1)
        causal = torch.ones(length, length, dtype=torch.bool, device=positions.device).tril()
        visible = (dialogue[:, None, :, None] == dialogue[:, None, None, :]) & causal
        return cls(positions.flatten(), positions[:, ::chunk] == 0, visible, chunk)

    def rows(self, x: Tensor) -> Tensor:
        """[tokens, ...] -> [rows, length, ...]"""
        return x.unflatten(0, (self.fresh.shape[0], -1))


@torch.compiler.disable
def attend(query: Tensor, key: Tensor, value: Tensor, packing: Packing) -> Tensor:
    """Causal attention inside each dialogue; query [tokens, heads, head_dim] -> the same, flat heads."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    by_row = (packing.rows(tensor).transpose(1, 2) for tensor in (query, key, value))
    mixed = F.scaled_dot_product_attention(*by_row, attn_mask=packing.visible)
    return mixed.transpose(1, 2).flatten(0, 1).flatten(1)


@torch.compiler.disable
def remember(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, packing: Packing) -> Tensor:
    """The delta rule inside each dialogue; all float32, value [tokens, heads, value_dim] -> the same."""
    rule = chunked_delta
    if query.is_cuda:
        # Triton is there on Linux only, and a GPU is where it pays.
        from tools.tiny_model.delta_kernel import delta as rule
    by_row = (packing.rows(tensor) for tensor in (query, key, value, decay, beta))
    return rule(*by_row, packing.fresh, packing.chunk).flatten(0, 1)


class ZeroCentredNorm(nn.Module):
    """RMS norm that scales by 1 + weight, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * (1 + self.weight.float())).to(
            x.dtype
        )


class GatedNorm(nn.Module):
    """RMS norm with a plain weight, then the silu of the output gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        wide = x.float()
        normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
        return (normal * self.weight.float() * F.silu(gate.float())).to(gate.dtype)


def rotary(positions: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Cosine and sine [..., 1, rotary_dim]. Text has equal positions on all three axes: plain 1-D rope."""
    half = torch.arange(0, geometry.rotary_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None, None].float() * geometry.rope_theta ** (-half / geometry.rotary_dim)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Half-split rotation of the leading dimensions of each head; the others pass."""
    turned, rest = x[..., : cosine.shape[-1]].float(), x[..., cosine.shape[-1] :]
    first, second = turned.chunk(2, dim=-1)
    turned = turned * cosine + torch.cat((-second, first), dim=-1) * sine
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


class Attention(nn.Module):
    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        hidden, width = geometry.hidden_size, geometry.head_dim
        self.q_proj = nn.Linear(hidden, 2 * geometry.num_attention_heads * width, bias=False)
        self.k_proj = nn.Linear(hidden, geometry.num_key_value_heads * width, bias=False)
        self.v_proj = nn.Linear(hidden, geometry.num_key_value_heads * width, bias=False)
        self.o_proj = nn.Linear(geometry.num_attention_heads * width, hidden, bias=False)
        self.q_norm = ZeroCentredNorm(width)
        self.k_norm = ZeroCentredNorm(width)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Query, key, value [..., heads, head_dim] (rotated) and the flat output gate."""
        heads, width = self.geometry.num_attention_heads, self.geometry.head_dim
        # Each head's rows hold its query and then its gate.
        query, gate = self.q_proj(x).unflatten(-1, (heads, 2 * width)).chunk(2, dim=-1)
        key = self.k_proj(x).unflatten(-1, (-1, width))
        value = self.v_proj(x).unflatten(-1, (-1, width))
        cosine, sine = rotary(positions, self.geometry)
        query, key = rotate(self.q_norm(query), cosine, sine), rotate(self.k_norm(key), cosine, sine)
        return query, key, value, gate.flatten(-2)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        query, key, value, gate = self.project(x, packing.positions)
        return self.o_proj(attend(query, key, value, packing) * gate.sigmoid())


class GatedDeltaNet(nn.Module):
    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        hidden, heads = geometry.hidden_size, geometry.linear_num_value_heads
        channels = 2 * geometry.key_width + geometry.value_width
        self.in_proj_qkv = nn.Linear(hidden, channels, bias=False)
        self.in_proj_z = nn.Linear(hidden, geometry.value_width, bias=False)
        self.in_proj_b = nn.Linear(hidden, heads, bias=False)
        self.in_proj_a = nn.Linear(hidden, heads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, 4, groups=channels, bias=False)
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(1, 8).log())
        # The softplus of dt_bias spans memories of a few to a few hundred tokens.
        span = torch.empty(heads).uniform_(math.log(2e-3), math.log(1e-1)).exp()
        self.dt_bias = nn.Parameter(span + torch.log(-torch.expm1(-span)))
        self.norm = GatedNorm(geometry.linear_value_head_dim)
        self.out_proj = nn.Linear(geometry.value_width, hidden, bias=False)

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Log decay (never positive) and write strength, float32 [..., heads]."""
        # Only the projections may run in bf16: a decay close to one would round to exactly one.
        a, b = self.in_proj_a(x).float(), self.in_proj_b(x).float()
        return -self.A_log.float().exp() * F.softplus(a + self.dt_bias.float()), b.sigmoid()

    def heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Convolved channels -> normalised query and key, repeated per value head, and value; float32."""
        g = self.geometry
        query, key, value = mixed.float().split((g.key_width, g.key_width, g.value_width), dim=-1)
        query, key = (t.unflatten(-1, (-1, g.linear_key_head_dim)) for t in (query, key))
        query, key = (t * torch.rsqrt(t.square().sum(-1, keepdim=True) + EPSILON) for t in (query, key))
        group = g.linear_num_value_heads // g.linear_num_key_heads
        query, key = query.repeat_interleave(group, dim=-2), key.repeat_interleave(group, dim=-2)
        return query * g.linear_key_head_dim**-0.5, key, value.unflatten(-1, (-1, g.linear_value_head_dim))

    def convolve(self, x: Tensor, positions: Tensor) -> Tensor:
        """Causal depthwise convolution as four shifted products, which cannot reach before a dialogue's start."""
        taps = self.conv1d.weight[:, 0].float()
        total = x.float() * taps[:, 3]
        for back in (1, 2, 3):
            shifted = F.pad(x, (0, 0, back, 0))[: x.shape[0]].float()
            total = total + shifted * taps[:, 3 - back] * (positions >= back)[..., None]
        return F.silu(total)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        mixed = self.convolve(self.in_proj_qkv(x), packing.positions)
        decay, beta = self.gates(x)
        with torch.autocast(x.device.type, enabled=False):
            output = remember(*self.heads(mixed), decay, beta, packing)
        z = self.in_proj_z(x)
        normal = self.norm(output, z.unflatten(-1, (-1, self.geometry.linear_value_head_dim)))
        return self.out_proj(normal.flatten(-2))
