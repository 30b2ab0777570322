"""q8row KV: int8 codes with one float16 scale for each row, a row being one token of one KV head.

    scale = float16(max |row| / 127)
    code  = clamp(round(value / scale), -127, 127), or 0 where the scale is 0
    value = code * scale

The division uses the stored scale, so encoding sees the same number that decoding will. Half a step is 1/254 of the
row's maximum; rounding the scale to float16 adds at most 2^-11 of that maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_core.api import KVDeviceFunctions, KVLayout, KVPart, KVPartFunctions, KVPlane, hookimpl

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import KVDeviceCodec

LARGEST_CODE = 127
LARGEST_SCALE = 65504.0
"""The largest finite float16; rows beyond 127 times that are clamped."""


class Q8RowCodec:
    """Keys and values are encoded alike."""

    def __init__(self, layout: KVLayout) -> None:
        self.layout = layout

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`values` [..., head_dim] -> codes int8 [..., head_dim], scale float16 [..., 1]."""
        exact = values.float()
        scale = (exact.abs().amax(-1, keepdim=True) / LARGEST_CODE).clamp(max=LARGEST_SCALE).half()
        steps = exact / scale.float()
        codes = steps.masked_fill(scale == 0, 0.0).round().clamp(-LARGEST_CODE, LARGEST_CODE)
        return codes.char(), scale

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        """The product is taken in float32 and rounded once, to `dtype`."""
        codes, scale = planes
        return (codes.float() * scale.float()).to(dtype)

    def device_functions(self) -> KVDeviceFunctions:
        """Codes up to 127 are exact in bfloat16, so products are taken in the activations' own dtype."""
        from ninfer_kv_q8row import triton

        key = KVPartFunctions(load=triton.load, store=triton.store, row_scale=triton.row_scale)
        value = KVPartFunctions(load=triton.load_pairs, store=triton.store, row_scale=triton.row_scale, lanes=2)
        return KVDeviceFunctions(key=key, value=value)


@hookimpl
def ninfer_kv_layout(head_dim: int) -> KVLayout:
    return KVLayout(planes=(*_planes("key", head_dim), *_planes("value", head_dim)), device_functions=True)


@hookimpl
def ninfer_kv_codec(layout: KVLayout) -> KVDeviceCodec:
    return Q8RowCodec(layout)


def _planes(part: KVPart, head_dim: int) -> tuple[KVPlane, KVPlane]:
    return (
        KVPlane(part=part, name="codes", dtype="int8", elements=head_dim),
        KVPlane(part=part, name="scale", dtype="float16", elements=1),
    )
