"""Which route of paged attention runs where."""

from __future__ import annotations

from typing import cast

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.api.kv import KVCodec, KVDeviceCodec
from ninfer_core.ops.paged_attention.composed import ComposedRoute
from ninfer_core.ops.paged_attention.reference import decode, prefill
from ninfer_core.ops.paged_attention.route import AttentionRoutes, AttentionShape
from ninfer_core.ops.paged_attention.tiles import decode_tiles, prefill_tiles
from ninfer_core.ops.workspace.paged_attention import has_kernels, is_narrow


def select(device: torch.device, kernels: Kernels, codec: KVCodec, shape: AttentionShape) -> AttentionRoutes:
    """The routes for one plan; both are chosen together. The CPU is always the reference, and so is a codec without
    device functions."""
    fits = has_kernels(shape.head_dim, str(shape.activation_dtype).removeprefix("torch."))
    if device.type == "cuda" and kernels == "auto" and codec.layout.device_functions and fits:
        return triton_routes(cast("KVDeviceCodec", codec), shape)
    return AttentionRoutes(prefill=ComposedRoute(codec, shape, prefill), decode=ComposedRoute(codec, shape, decode))


def triton_routes(codec: KVDeviceCodec, shape: AttentionShape, dot_dtype: torch.dtype | None = None) -> AttentionRoutes:
    """The kernels. `dot_dtype` overrides the codec's: the interpreter multiplies in float32 only."""
    from ninfer_core.ops.paged_attention.chunks import PrefillKernels
    from ninfer_core.ops.paged_attention.launch import CodecKernels
    from ninfer_core.ops.paged_attention.rounds import DecodeKernels

    of_codes = torch.float16 if codec.device_functions().dot_dtype == "float16" else shape.activation_dtype
    unpacked = is_narrow(codec.layout.bytes, shape.head_dim)
    return AttentionRoutes(
        prefill=PrefillKernels(
            # Unpacked values have their row's factor in them, which float16 may not reach to.
            CodecKernels.of(codec, dot_dtype or (shape.activation_dtype if unpacked else of_codes)),
            shape,
            prefill_tiles(shape),
            unpacked,
        ),
        decode=DecodeKernels(CodecKernels.of(codec, dot_dtype or of_codes), shape, decode_tiles(shape, codec.layout)),
    )
