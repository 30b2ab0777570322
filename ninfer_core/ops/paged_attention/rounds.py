"""Decode rounds by kernels. Imported only where a CUDA route was selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.paged_attention.kernels.decode import attend_splits, combine
from ninfer_core.ops.paged_attention.launch import LOG2_E, CodecKernels, prepared
from ninfer_core.ops.paged_attention.route import AttentionShape, PagedRows
from ninfer_core.ops.paged_attention.tiles import DecodeTiles


@dataclass(frozen=True, slots=True)
class DecodeKernels:
    """Implements AttentionRoute for decode rounds, in three launches."""

    codec: CodecKernels
    shape: AttentionShape
    tiles: DecodeTiles

    def attend_projected(
        self, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, rows: PagedRows, scale: float
    ) -> torch.Tensor:
        query = prepared(
            self.codec,
            self.shape,
            projected,
            norms,
            rotation,
            rows,
            block_tokens=1,
            options=self._options(projected, self.tiles.prepare_warps),
        )
        sums, softmax = self.splits(query, rows, scale)
        return self.combined(sums, softmax, projected, rows)

    def splits(self, query: torch.Tensor, rows: PagedRows, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        """-> sums and softmax of every split, as `attend_splits` leaves them."""
        count, columns = query.shape[:2]
        shape, tiles = self.shape, self.tiles
        left = (count, tiles.splits, columns, shape.query_heads)
        sums = torch.empty(*left, shape.head_dim, dtype=torch.float32, device=query.device)
        softmax = torch.empty(2, *left, dtype=torch.float32, device=query.device)
        attend_splits[(shape.kv_heads, tiles.splits, count)](
            query,
            *self.codec.split(rows.planes),
            rows.block_table,
            rows.lengths,
            sums,
            softmax,
            rows.block_table.stride(0),
            scale * LOG2_E,
            GROUP=shape.group,
            QUERIES=max(16, triton.next_power_of_2(columns * shape.group)),
            TOKENS=tiles.tokens,
            STAGES=tiles.stages,
            **self.codec.loads(),
            **self._common(columns),
            **self._options(query, tiles.warps),
        )
        return sums, softmax

    def combined(
        self, sums: torch.Tensor, softmax: torch.Tensor, projected: torch.Tensor, rows: PagedRows
    ) -> torch.Tensor:
        """-> gated [rows, columns, query_heads * head_dim]."""
        count, columns, _ = projected.shape
        out = projected.new_empty(count, columns, self.shape.query_heads * self.shape.head_dim)
        combine[(self.shape.query_heads, columns, count)](
            sums,
            softmax,
            projected,
            rows.lengths,
            out,
            QUERY_HEADS=self.shape.query_heads,
            **self.codec.transform(self.shape.head_dim),
            **self._common(columns),
            **self._options(projected, self.tiles.combine_warps),
        )
        return out

    def _options(self, x: torch.Tensor, warps: int) -> dict[str, Any]:
        """Each of the three launches begins while the one ahead ends."""
        return {"num_warps": warps, "DEPENDENT": True, "launch_pdl": True} if x.is_cuda else {"DEPENDENT": False}

    def _common(self, columns: int) -> dict[str, Any]:
        return {
            "COLUMNS": columns,
            "KV_HEADS": self.shape.kv_heads,
            "HEAD_DIM": self.shape.head_dim,
            "PAGE_TOKENS": self.shape.page_tokens,
            "SPLITS": self.tiles.splits,
        }
