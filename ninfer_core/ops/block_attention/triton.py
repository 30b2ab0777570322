"""Attention of a block by kernels: one launch to keep context, two to attend."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.block_attention.kernels.attend import attend_splits, combine
from ninfer_core.ops.block_attention.kernels.store import store_columns
from ninfer_core.ops.block_attention.shape import BlockShape, Ring
from ninfer_core.ops.workspace.block_attention import MOST_SPLITS, SPLIT_TOKENS

LOG2_E = math.log2(math.e)
EVERYTHING = 1 << 30
"""A window that no context is longer than."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """`tokens` of the context are looked at at once, `stages` of them are under way; `stored_tokens` are kept by one
    program."""

    tokens: int = 64
    stages: int = 2
    warps: int = 4
    stored_tokens: int = 8


@dataclass(frozen=True, slots=True)
class TritonBlockAttention:
    """Implements `BlockAttention` for head dimensions that are powers of two."""

    tiles: Tiles = Tiles()
    split_tokens: int = SPLIT_TOKENS

    def store(
        self,
        ring: Ring,
        stored: torch.Tensor,
        key_norms: torch.Tensor,
        epsilon: float,
        rotation: Rotation,
        slots: torch.Tensor,
        first: torch.Tensor,
        counts: torch.Tensor,
    ) -> None:
        """See `BlockAttention`."""
        rows, columns, layers, _, kv_heads, head_dim = stored.shape
        tokens = min(self.tiles.stored_tokens, triton.next_power_of_2(columns))
        store_columns[(layers * kv_heads, triton.cdiv(columns, tokens), rows)](
            stored.contiguous(),
            key_norms,
            rotation.cos,
            rotation.sin,
            ring.keys,
            ring.values,
            ring.keys.stride(0),
            ring.keys.stride(1),
            ring.tokens,
            slots.contiguous(),
            first,
            first.stride(0),
            counts.contiguous(),
            columns,
            layers,
            epsilon,
            KV_HEADS=kv_heads,
            HEAD_DIM=head_dim,
            PAIRS=rotation.cos.shape[-1],
            TOKENS=tokens,
            num_warps=1,
        )

    def attend(
        self,
        shape: BlockShape,
        ring: Ring,
        layer: int,
        projected: torch.Tensor,
        norms: HeadNorms,
        rotation: Rotation,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """See `BlockAttention`."""
        rows, columns, _ = projected.shape
        window = EVERYTHING if shape.window is None else shape.window
        splits = min(MOST_SPLITS, triton.cdiv(min(ring.tokens, window - 1), self.split_tokens))
        left = (rows, splits + 1, columns, shape.query_heads)
        sums = torch.empty(*left, shape.head_dim, dtype=torch.float32, device=projected.device)
        softmax = torch.empty(2, *left, dtype=torch.float32, device=projected.device)
        cut = {
            "COLUMNS": columns,
            "HEAD_DIM": shape.head_dim,
            "SPLITS": splits,
            "SPLIT_TOKENS": self.split_tokens,
            "TOKENS": self.tiles.tokens,
        }
        attend_splits[(shape.kv_heads, splits + 1, rows)](
            projected.contiguous(),
            norms.query,
            norms.key,
            rotation.cos,
            rotation.sin,
            ring.keys[layer],
            ring.values[layer],
            ring.keys.stride(1),
            ring.tokens,
            slots.contiguous(),
            lengths.contiguous(),
            sums,
            softmax,
            window,
            norms.epsilon,
            scale * LOG2_E,
            CAUSAL=shape.causal,
            KV_HEADS=shape.kv_heads,
            GROUP=shape.group,
            PAIRS=rotation.cos.shape[-1],
            QUERIES=max(16, triton.next_power_of_2(columns * shape.group)),
            OWN=max(16, triton.next_power_of_2(columns)),
            STAGES=self.tiles.stages,
            PRECISION="ieee" if projected.dtype == torch.float32 else "tf32",
            num_warps=self.tiles.warps,
            **cut,
        )
        out = projected.new_empty(rows, columns, shape.query_heads * shape.head_dim)
        combine[(shape.query_heads, columns, rows)](
            sums,
            softmax,
            lengths.contiguous(),
            out,
            window,
            ring.tokens,
            QUERY_HEADS=shape.query_heads,
            ALL_SPLITS=triton.next_power_of_2(splits + 1),
            num_warps=4,
            **cut,
        )
        return out
