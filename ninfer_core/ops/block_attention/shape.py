"""What the operation is called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ninfer_core.api.model import HeadNorms, Rotation


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Of the attention of one layer; see the package."""

    query_heads: int
    kv_heads: int
    head_dim: int
    window: int | None
    causal: bool

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class Ring:
    """The context of all slots, in some layers."""

    keys: torch.Tensor  # [layers, slots, kv_heads, ring, head_dim]
    values: torch.Tensor  # [layers, slots, kv_heads, ring, head_dim]

    @property
    def tokens(self) -> int:
        """Of one slot, at most."""
        return self.keys.shape[3]


class BlockAttention(Protocol):
    """Both parts of the operation on one device; the package says what they do."""

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
        """Keep the first `counts` columns of every row, in all layers of `ring`."""
        ...

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
        """-> [rows, columns, query_heads * head_dim], over one layer of `ring`."""
        ...
