"""Chunks of a prompt by kernels. Imported only where a CUDA route was selected."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.paged_attention.kernels.prefill import attend_chunk
from ninfer_core.ops.paged_attention.kernels.unpack import unpack
from ninfer_core.ops.paged_attention.launch import LOG2_E, CodecKernels, prepared
from ninfer_core.ops.paged_attention.route import AttentionShape, PagedRows
from ninfer_core.ops.paged_attention.tiles import PrefillTiles


@dataclass(frozen=True, slots=True)
class PrefillKernels:
    """Implements AttentionRoute for chunks, in two launches. `unpacked`: two more decode what the pages hold first, to
    the dtype of products, for formats narrower than that."""

    codec: CodecKernels
    shape: AttentionShape
    tiles: PrefillTiles
    unpacked: bool

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
            block_tokens=self.tiles.prepare_tokens,
            options={"num_warps": self.tiles.prepare_warps, "DEPENDENT": False},
        )
        if not self.unpacked:
            return self.attended(query, projected, rows, self.codec, scale)
        return self.attended(query, projected, self.decoded(rows, query), self.codec.plain(), scale)

    def decoded(self, rows: PagedRows, query: torch.Tensor) -> PagedRows:
        """The pages of the rows, side by side and in the dtype of `query`."""
        count, columns = query.shape[:2]
        shape, step = self.shape, self.tiles.unpack_tokens
        pages = triton.cdiv(rows.context_tokens, shape.page_tokens)
        functions = self.codec.functions
        planes = []
        parts = zip(self.codec.split(rows.planes), (functions.key, functions.value), strict=True)
        for stored, part in parts:
            plane = query.new_empty(count * pages, shape.kv_heads, shape.page_tokens, shape.head_dim)
            unpack[(shape.kv_heads, triton.cdiv(rows.context_tokens, step), count)](
                stored,
                plane,
                rows.block_table,
                rows.lengths,
                columns,
                rows.block_table.stride(0),
                pages,
                KV_HEADS=shape.kv_heads,
                HEAD_DIM=shape.head_dim,
                PAGE_TOKENS=shape.page_tokens,
                TOKENS=step,
                LOAD=part.load,
                SCALE=part.row_scale,
                LANES=part.lanes,
                num_warps=self.tiles.unpack_warps,
            )
            planes.append(plane)
        table = torch.arange(count * pages, dtype=torch.int32, device=query.device).view(count, pages)
        return PagedRows(tuple(planes), table, rows.lengths, rows.context_tokens)

    def attended(
        self, query: torch.Tensor, projected: torch.Tensor, rows: PagedRows, codec: CodecKernels, scale: float
    ) -> torch.Tensor:
        """-> gated [rows, columns, query_heads * head_dim]."""
        count, columns = query.shape[:2]
        shape, tiles = self.shape, self.tiles
        out = projected.new_empty(count, columns, shape.query_heads * shape.head_dim)
        attend_chunk[(shape.query_heads, triton.cdiv(columns, tiles.queries), count)](
            query,
            *codec.split(rows.planes),
            rows.block_table,
            rows.lengths,
            projected,
            out,
            columns,
            rows.block_table.stride(0),
            scale * LOG2_E,
            KV_HEADS=shape.kv_heads,
            GROUP=shape.group,
            HEAD_DIM=shape.head_dim,
            PAGE_TOKENS=shape.page_tokens,
            QUERIES=tiles.queries,
            TOKENS=tiles.tokens,
            PIPELINE=tiles.stages,
            **codec.loads(),
            **codec.transform(shape.head_dim),
            num_warps=tiles.warps,
        )
        return out
