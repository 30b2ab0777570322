"""What a route of paged attention is, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ninfer_core.api.model import HeadNorms, Rotation


@dataclass(frozen=True, slots=True)
class PagedRows:
    """The rows of one unit of work in one layer's pools; see the package for shapes and bounds."""

    planes: tuple[torch.Tensor, ...]
    block_table: torch.Tensor
    lengths: torch.Tensor
    context_tokens: int


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What a route is chosen and built by: the heads, and the largest units of work."""

    query_heads: int
    kv_heads: int
    head_dim: int
    page_tokens: int
    decode_columns: int
    max_context: int
    activation_dtype: torch.dtype

    @property
    def group(self) -> int:
        """Query heads of one KV head."""
        return self.query_heads // self.kv_heads


class AttentionRoute(Protocol):
    """One way to attend, for prefills or for decode rounds."""

    def attend_projected(
        self, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, rows: PagedRows, scale: float
    ) -> torch.Tensor:
        """Prepare, append, attend, gate: `ninfer_core.api.AttentionCache.attend_projected` over `rows`."""
        ...


@dataclass(frozen=True, slots=True)
class AttentionRoutes:
    """The routes of one plan. Both write pages alike, and read what the other wrote."""

    prefill: AttentionRoute
    decode: AttentionRoute
