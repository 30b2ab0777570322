"""bf16 KV: keys and values as bfloat16, one plane each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_core.api import KVDeviceFunctions, KVLayout, KVPartFunctions, KVPlane, hookimpl

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import KVDeviceCodec, KVPart


class Bf16Codec:
    """Rounds to bfloat16 on the way in; values that are bfloat16 already come back bit for bit."""

    def __init__(self, layout: KVLayout) -> None:
        self.layout = layout

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (values.bfloat16(),)

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        (stored,) = planes
        return stored.to(dtype)

    def device_functions(self) -> KVDeviceFunctions:
        from ninfer_kvformats.bf16 import triton

        part = KVPartFunctions(load=triton.load, store=triton.store)
        return KVDeviceFunctions(key=part, value=part)


@hookimpl
def ninfer_kv_layout(head_dim: int) -> KVLayout:
    return KVLayout(
        planes=(
            KVPlane(part="key", name="key", dtype="bfloat16", elements=head_dim),
            KVPlane(part="value", name="value", dtype="bfloat16", elements=head_dim),
        ),
        device_functions=True,
    )


@hookimpl
def ninfer_kv_codec(layout: KVLayout) -> KVDeviceCodec:
    return Bf16Codec(layout)
