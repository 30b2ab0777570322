"""fp8 KV: e4m3 codes with one float16 scale for each row, a row being one token of one KV head.

    scale = float16(clamp(max |row| / 448, 2^-24, 65504))
    code  = e4m3(clamp(value / scale, -448, 448)), to the nearest, ties to even
    value = code * scale

Keys are transformed by the orthonormal Hadamard transform before, which spreads what stands out of a row; values are
stored as they are (docs/engine.md, "KV formats"). The division uses the stored scale. A code is within 2^-4 of its
value, or within 2^-10 below the smallest normal code, and rounding the scale costs nothing that the division does not
see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_core.api import KVDeviceFunctions, KVLayout, KVPart, KVPartFunctions, KVPlane, hookimpl

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import KVDeviceCodec

LARGEST_CODE = 448.0
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-24, 65504.0
"""The smallest and the largest float16 that are not zero and finite."""


class Fp8Codec:
    """Keys and values are encoded alike."""

    def __init__(self, layout: KVLayout) -> None:
        self.layout = layout

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`values` [..., head_dim] -> codes float8_e4m3fn [..., head_dim], scale float16 [..., 1]."""
        import torch

        exact = values.float()
        scale = (exact.abs().amax(-1, keepdim=True) / LARGEST_CODE).clamp(SMALLEST_SCALE, LARGEST_SCALE).half()
        steps = (exact / scale.float()).clamp(-LARGEST_CODE, LARGEST_CODE)
        return steps.to(torch.float8_e4m3fn), scale

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        """The product is taken in float32 and rounded once, to `dtype`."""
        codes, scale = planes
        return (codes.float() * scale.float()).to(dtype)

    def device_functions(self) -> KVDeviceFunctions:
        """float16 holds every code and is one conversion away from a pair of them."""
        from ninfer_kvformats.fp8 import triton

        key = KVPartFunctions(load=triton.load, store=triton.store, row_scale=triton.row_scale)
        value = KVPartFunctions(load=triton.load_pairs, store=triton.store, row_scale=triton.row_scale, lanes=2)
        return KVDeviceFunctions(key=key, value=value, dot_dtype="float16")


@hookimpl
def ninfer_kv_layout(head_dim: int) -> KVLayout:
    return KVLayout(
        planes=(*_planes("key", head_dim), *_planes("value", head_dim)),
        key_transform="hadamard",
        device_functions=True,
    )


@hookimpl
def ninfer_kv_codec(layout: KVLayout) -> KVDeviceCodec:
    return Fp8Codec(layout)


def _planes(part: KVPart, head_dim: int) -> tuple[KVPlane, KVPlane]:
    return (
        KVPlane(part=part, name="codes", dtype="float8_e4m3fn", elements=head_dim),
        KVPlane(part=part, name="scale", dtype="float16", elements=1),
    )
