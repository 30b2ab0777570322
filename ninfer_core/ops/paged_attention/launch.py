"""What the Triton routes share on the host's side. Imported only where a CUDA route was selected."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from ninfer_core.api.kv import KVDeviceCodec, KVDeviceFunctions, KVPartFunctions
from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.paged_attention.kernels.prepare import prepare
from ninfer_core.ops.paged_attention.kernels.unpack import load_plain
from ninfer_core.ops.paged_attention.route import AttentionShape, PagedRows

DOT_DTYPES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class CodecKernels:
    """A codec as the kernels take it. Of a layer's planes the first `key_planes` are those of keys; tiles are
    multiplied in `dot_dtype`."""

    functions: KVDeviceFunctions
    dot_dtype: torch.dtype
    key_planes: int
    key_transform: bool
    value_transform: bool

    @classmethod
    def of(cls, codec: KVDeviceCodec, dot_dtype: torch.dtype) -> CodecKernels:
        layout = codec.layout
        return cls(
            functions=codec.device_functions(),
            dot_dtype=dot_dtype,
            key_planes=len(layout.part("key")),
            key_transform=layout.key_transform == "hadamard",
            value_transform=layout.value_transform == "hadamard",
        )

    def plain(self) -> CodecKernels:
        """The same for planes that hold the values themselves in the dtype of products, one for each part. Nothing
        is stored in those."""
        part = KVPartFunctions(load=load_plain, store=self.functions.key.store)
        return dataclasses.replace(self, functions=KVDeviceFunctions(key=part, value=part), key_planes=1)

    def split(self, planes: tuple[torch.Tensor, ...]) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Planes of keys, planes of values."""
        return planes[: self.key_planes], planes[self.key_planes :]

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
            "VALUE_TRANSFORM": self.value_transform,
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
    options: dict[str, Any],
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
        KEY_TRANSFORM=codec.key_transform,
        **codec.transform(shape.head_dim),
        **options,
    )
    return query
