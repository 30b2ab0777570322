"""The drafters for training and measuring: the MTP head, DFlash, and DFlash2, which adds to a frozen DFlash.

Names of parameters are those of published checkpoints. Everything here sees whole rows [rows, length]; what a server
does step by step is in the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tools.tiny_model.geometry import Geometry
from tools.tiny_model.mixers import EPSILON, ZeroCentredNorm, rotate
from tools.tiny_model.model import MLP, Layer


@dataclass(frozen=True, slots=True)
class DraftGeometry:
    """Sizes of DFlash and DFlash2; the keys of their config with the same meaning."""

    hidden_size: int = 256
    vocab_size: int = 4096
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 384
    sliding_window: int = 256
    rope_theta: float = 1_000_000.0
    block_size: int = 8
    target_layer_ids: tuple[int, ...] = (1, 4, 7)
    mask_token_id: int = 4082  # <|fim_pad|>, which no text has
    conv_kernel_size: int = 2
    conv_group_size: int = 16
    selector_rank: int = 32
    selector_top_k: int = 16

    @classmethod
    def of(cls, target: Geometry) -> DraftGeometry:
        """For a target of another width; everything else stays."""
        return cls(hidden_size=target.hidden_size, vocab_size=target.vocab_size)


class MultiTokenHead(nn.Module):
    """Predicts token t+2 from the hidden state at t and token t+1; applied again to its own output for later ones."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        hidden = geometry.hidden_size
        self.fc = nn.Linear(2 * hidden, hidden, bias=False)
        self.pre_fc_norm_embedding = ZeroCentredNorm(hidden)
        self.pre_fc_norm_hidden = ZeroCentredNorm(hidden)
        self.layers = nn.ModuleList([Layer(geometry, "full_attention")])
        self.norm = ZeroCentredNorm(hidden)

    def join(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return self.fc(torch.cat((self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)), dim=-1))

    def depth(self, joined: Tensor, positions: Tensor, past: list[tuple[Tensor, Tensor]], visible: Tensor) -> Tensor:
        """One application [rows, length, hidden]; `past` has (key, value) of each depth so far and gets this one's.

        `visible` [rows or 1, 1, length, length * depths]: the first depth causally, the later ones only the own chain.
        """
        layer = self.layers[0]
        query, key, value, gate = layer.self_attn.project(layer.input_layernorm(joined), positions)
        past.append((key, value))
        keys, values = (torch.cat(parts, dim=1).transpose(1, 2) for parts in zip(*past, strict=True))
        group = query.shape[2] // key.shape[2]
        keys, values = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), keys, values, attn_mask=visible)
        x = joined + layer.self_attn.o_proj(mixed.transpose(1, 2).flatten(-2) * gate.sigmoid())
        return self.norm(x + layer.mlp(layer.post_attention_layernorm(x)))


class PlainNorm(nn.Module):
    """RMS norm with a plain weight, as the drafters of this kind have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * self.weight.float()).to(x.dtype)


class BlockConvolution(nn.Module):
    """Mixes each row of a block with the one before it, before and after a sublayer; starts as the identity."""

    def __init__(self, geometry: DraftGeometry) -> None:
        super().__init__()
        taps, hidden = geometry.conv_kernel_size, geometry.hidden_size
        self.taps, self.group = taps, geometry.conv_group_size
        base = torch.zeros(2, taps, hidden)
        base[:, 0] = 1
        self.base_kernel = nn.Parameter(base)
        self.kernel_projection = nn.Linear(hidden, 2 * taps * hidden // self.group, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def kernels(self, normal: Tensor) -> Tensor:
        """[..., block, hidden] -> [..., block, side, tap, hidden]; both sides come from the input of the sublayer."""
        delta = self.kernel_projection(normal).unflatten(-1, (2, self.taps, -1))
        return self.base_kernel + delta.repeat_interleave(self.group, dim=-1)

    def mix(self, x: Tensor, kernels: Tensor, side: int) -> Tensor:
        total = kernels[..., side, 0, :] * x
        for tap in range(1, self.taps):
            total = total + kernels[..., side, tap, :] * F.pad(x, (0, 0, tap, 0))[..., : x.shape[-2], :]
        return total


class DraftAttention(nn.Module):
    def __init__(self, geometry: DraftGeometry) -> None:
        super().__init__()
        self.geometry = g = geometry
        self.q_proj = nn.Linear(g.hidden_size, g.num_attention_heads * g.head_dim, bias=False)
        self.k_proj = nn.Linear(g.hidden_size, g.num_key_value_heads * g.head_dim, bias=False)
        self.v_proj = nn.Linear(g.hidden_size, g.num_key_value_heads * g.head_dim, bias=False)
        self.o_proj = nn.Linear(g.num_attention_heads * g.head_dim, g.hidden_size, bias=False)
        self.q_norm, self.k_norm = PlainNorm(g.head_dim), PlainNorm(g.head_dim)

    def stored(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Key and value [rows, tokens, kv heads, head_dim]."""
        key, value = (p(x).unflatten(-1, (-1, self.geometry.head_dim)) for p in (self.k_proj, self.v_proj))
        return rotate(self.k_norm(key), *full_rotary(positions, self.geometry)), value

    def forward(self, x: Tensor, context: Tensor, at: Tensor, context_at: Tensor, visible: Tensor) -> Tensor:
        """x [rows, blocks * block, hidden] over context [rows, length, hidden] and itself."""
        query = rotate(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.geometry.head_dim))),
                       *full_rotary(at, self.geometry))  # fmt: skip
        stored = zip(self.stored(context, context_at), self.stored(x, at), strict=True)
        group = self.geometry.num_attention_heads // self.geometry.num_key_value_heads
        key, value = (torch.cat(pair, dim=1).transpose(1, 2).repeat_interleave(group, dim=1) for pair in stored)
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key, value, attn_mask=visible)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


def full_rotary(positions: Tensor, geometry: DraftGeometry) -> tuple[Tensor, Tensor]:
    half = torch.arange(0, geometry.head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None, None].float() * geometry.rope_theta ** (-half / geometry.head_dim)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


class DraftLayer(nn.Module):
    def __init__(self, geometry: DraftGeometry, *, convolved: bool) -> None:
        super().__init__()
        self.block = geometry.block_size
        self.input_layernorm, self.post_attention_layernorm = (PlainNorm(geometry.hidden_size) for _ in range(2))
        self.self_attn = DraftAttention(geometry)
        self.mlp = MLP(geometry)
        if convolved:
            self.attention_conv, self.mlp_conv = BlockConvolution(geometry), BlockConvolution(geometry)
        self.convolved = convolved

    def forward(self, x: Tensor, *attended: Tensor) -> Tensor:
        normal = self.input_layernorm(x)
        x = x + self._around(normal, "attention_conv", lambda row: self.self_attn(row, *attended))
        normal = self.post_attention_layernorm(x)
        return x + self._around(normal, "mlp_conv", self.mlp)

    def _around(self, normal: Tensor, name: str, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if not self.convolved:
            return sublayer(normal)
        conv = getattr(self, name)
        blocks = normal.unflatten(-2, (-1, self.block))
        kernels = conv.kernels(blocks)
        inside = sublayer(conv.mix(blocks, kernels, 0).flatten(-3, -2))
        return conv.mix(inside.unflatten(-2, (-1, self.block)), kernels, 1).flatten(-3, -2)


class Selector(nn.Module):
    """Scores each candidate of a position by the candidate chosen before it."""

    def __init__(self, geometry: DraftGeometry) -> None:
        super().__init__()
        self.hidden_projection = nn.Linear(geometry.hidden_size, geometry.selector_rank, bias=False)
        self.predecessor_codebook = nn.Parameter(0.02 * torch.randn(geometry.vocab_size, geometry.selector_rank))
        # Zero: at first the selector changes nothing.
        self.successor_codebook = nn.Parameter(torch.zeros(geometry.vocab_size, geometry.selector_rank))

    def edges(self, before: Tensor, hidden: Tensor, candidates: Tensor) -> Tensor:
        """before [...] token ids, hidden [..., hidden], candidates [..., k] -> [..., k], added to their logits."""
        state = F.embedding(before, self.predecessor_codebook) * self.hidden_projection(hidden)
        return (F.embedding(candidates, self.successor_codebook) * state[..., None, :]).sum(-1)


class BlockDrafter(nn.Module):
    """DFlash, or DFlash2 with `convolved`: one pass over [anchor, mask, ...] gives all drafts of a block."""

    def __init__(self, geometry: DraftGeometry, *, second: bool) -> None:
        super().__init__()
        self.geometry, self.second = geometry, second
        self.fc = nn.Linear(len(geometry.target_layer_ids) * geometry.hidden_size, geometry.hidden_size, bias=False)
        self.hidden_norm, self.norm = PlainNorm(geometry.hidden_size), PlainNorm(geometry.hidden_size)
        self.layers = nn.ModuleList(DraftLayer(geometry, convolved=second) for _ in range(geometry.num_hidden_layers))
        if second:
            self.candidate_selector = Selector(geometry)
        for name, weight in self.named_parameters():
            if (weight.dim() == 2 and name.endswith("proj.weight")) or name == "fc.weight":
                nn.init.normal_(
                    weight,
                    std=weight.shape[1] ** -0.5 / (2 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1),
                )

    def context(self, taps: Tensor) -> Tensor:
        """Residuals after the tapped layers, concatenated [..., taps * hidden] -> what all layers attend to."""
        return self.hidden_norm(self.fc(taps))

    def forward(self, rows: Tensor, context: Tensor, at: Tensor, context_at: Tensor, visible: Tensor) -> Tensor:
        """Embedded blocks [rows, blocks * block, hidden] -> hidden states for the head, same positions."""
        x = rows
        for layer in self.layers:
            x = layer(x, context, at, context_at, visible)
        return self.norm(x)


def block_visible(dialogue: Tensor, positions: Tensor, anchors: Tensor, geometry: DraftGeometry) -> Tensor:
    """[rows, 1, blocks * block, length + blocks * block]: context strictly before the anchor within the window, and the
    own block.

    dialogue and positions [rows, length]: which dialogue a token is of, its place in it; anchors [rows, blocks].
    """
    block, length = geometry.block_size, positions.shape[1]
    index = torch.arange(length, device=anchors.device)
    inside = (index < anchors[..., None]) & (dialogue[:, None] == dialogue.gather(1, anchors)[..., None])
    inside = inside.repeat_interleave(block, dim=1)
    own = anchors.repeat_interleave(block, dim=1) + torch.arange(block, device=anchors.device).repeat(anchors.shape[1])
    near = own[..., None] - index < geometry.sliding_window
    number = torch.arange(anchors.shape[1], device=anchors.device).repeat_interleave(block)
    same = (number[:, None] == number[None, :]).expand(len(anchors), -1, -1)
    return torch.cat((inside & near, same), dim=-1)[:, None]
