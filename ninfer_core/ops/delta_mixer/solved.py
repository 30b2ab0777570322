"""What the launches of a prefill hand on to each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.delta_mixer.values import MixerWeights
from ninfer_core.ops.workspace.gated_delta import CHUNK_COLUMNS


@dataclass(frozen=True, slots=True)
class Solved:
    """See `kernels.chunks` and `kernels.sequence`."""

    query: torch.Tensor
    key: torch.Tensor
    base: torch.Tensor
    pull: torch.Tensor
    running: torch.Tensor
    before: torch.Tensor

    @property
    def chunks(self) -> int:
        return self.base.shape[2] // CHUNK_COLUMNS

    @classmethod
    def empty(cls, rows: int, chunks: int, every: int, weights: MixerWeights, like: torch.Tensor) -> Solved:
        padded, heads, key_dim, value_dim = (
            chunks * CHUNK_COLUMNS,
            weights.value_heads,
            weights.key_dim,
            weights.value_dim,
        )
        return cls(
            query=like.new_empty(rows, weights.key_heads, padded, key_dim),
            key=like.new_empty(rows, weights.key_heads, padded, key_dim),
            base=like.new_empty(rows, heads, padded, value_dim),
            pull=like.new_empty(rows, heads, padded, key_dim),
            running=like.new_empty(rows, heads, padded, dtype=torch.float32),
            before=like.new_empty(rows, heads, -(-chunks // every), key_dim, value_dim),
        )
