"""The Triton routes on the host's side. Imported only where a CUDA route was selected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from ninfer_core.api.kv import KVDeviceFunctions, KVLayout
from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.paged_attention.kernels.decode import attend_splits, combine
from ninfer_core.ops.paged_attention.kernels.prefill import attend_chunk
from ninfer_core.ops.paged_attention.kernels.prepare import prepare
from ninfer_core.ops.paged_attention.route import AttentionShape, PagedRows
from ninfer_core.ops.paged_attention.tiles import DecodeTiles, PrefillTiles

DOT_DTYPES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class CodecKernels:
    """A codec as the kernels take it. `dot_dtype` is what tiles are multiplied in."""

    layout: KVLayout
    functions: KVDeviceFunctions
    dot_dtype: torch.dtype

    def split(self, planes: tuple[torch.Tensor, ...]) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Planes of keys, planes of values."""
        keys = len(self.layout.part("key"))
        return planes[:keys], planes[keys:]

    def loads(self) -> dict[str, Any]:
        key, value = self.functions.key, self.functions.value
        return {
            "DTYPE": DOT_DTYPES[self.dot_dtype],
            "KEY_LOAD": key.load,
            "KEY_SCALE": key.row_scale,
            "KEY_LANES": key.lanes,
            "VALUE_LOAD": value.load,
            "VALUE_SCALE": value.row_scale,
            "VALUE_LANES": value.lanes,
        }

    def transform(self, head_dim: int) -> dict[str, Any]:
        return {
            "VALUE_TRANSFORM": self.layout.value_transform == "hadamard",
            "STAGES": head_dim.bit_length() - 1,
            "FACTOR": head_dim**-0.5,
        }


def prepared(
    codec: CodecKernels,
    shape: AttentionShape,
    projected: torch.Tensor,
    norms: HeadNorms,
    rotation: Rotation,
    rows: PagedRows,
    *,
    block_tokens: int,
    warps: int,
) -> torch.Tensor:
    """Store keys and values, of a projection that lies in one piece; -> queries [rows, columns, query_heads, head_dim]
    in the dtype of products."""
    assert projected.is_contiguous(), f"a projection with strides {projected.stride()}"
    count, columns, _ = projected.shape
    query = torch.empty(
        count, columns, shape.query_heads, shape.head_dim, dtype=codec.dot_dtype, device=projected.device
    )
    keys, values = codec.split(rows.planes)
    heads = shape.query_heads + 2 * shape.kv_heads
    prepare[(heads, triton.cdiv(count * columns, block_tokens))](
        projected,
        query,
        norms.query,
        norms.key,
        rotation.cos,
        rotation.sin,
        keys,
        values,
        rows.block_table,
        rows.lengths,
        count * columns,
        columns,
        rows.block_table.stride(0),
        norms.epsilon,
        QUERY_HEADS=shape.query_heads,
        KV_HEADS=shape.kv_heads,
        HEAD_DIM=shape.head_dim,
        PAIRS=rotation.cos.shape[-1],
        PAGE_TOKENS=shape.page_tokens,
        TOKENS=block_tokens,
        KEY_STORE=codec.functions.key.store,
        VALUE_STORE=codec.functions.value.store,
        KEY_TRANSFORM=codec.layout.key_transform == "hadamard",
        **codec.transform(shape.head_dim),
        num_warps=warps,
    )
    return query


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
            self.codec, self.shape, projected, norms, rotation, rows, block_tokens=1, warps=self.tiles.prepare_warps
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
            num_warps=tiles.warps,
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
            num_warps=self.tiles.combine_warps,
        )
        return out

    def _common(self, columns: int) -> dict[str, Any]:
        return {
            "COLUMNS": columns,
            "KV_HEADS": self.shape.kv_heads,
            "HEAD_DIM": self.shape.head_dim,
            "PAGE_TOKENS": self.shape.page_tokens,
            "SPLITS": self.tiles.splits,
        }


@dataclass(frozen=True, slots=True)
class PrefillKernels:
    """Implements AttentionRoute for chunks, in two launches."""

    codec: CodecKernels
    shape: AttentionShape
    tiles: PrefillTiles

    def attend_projected(
        self, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, rows: PagedRows, scale: float
    ) -> torch.Tensor:
        shape, tiles = self.shape, self.tiles
        query = prepared(
            self.codec,
            shape,
            projected,
            norms,
            rotation,
            rows,
            block_tokens=tiles.prepare_tokens,
            warps=tiles.prepare_warps,
        )
        count, columns = query.shape[:2]
        out = projected.new_empty(count, columns, shape.query_heads * shape.head_dim)
        attend_chunk[(shape.query_heads, triton.cdiv(columns, tiles.queries), count)](
            query,
            *self.codec.split(rows.planes),
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
            **self.codec.loads(),
            **self.codec.transform(shape.head_dim),
            num_warps=tiles.warps,
        )
        return out
