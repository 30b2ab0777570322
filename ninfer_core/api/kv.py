"""A KV dtype is a codec: how the keys and values of a token are laid out in a page, not how attention runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ninfer_core.api.artifact import DTYPE_BYTES

if TYPE_CHECKING:
    import torch

KVPart = Literal["key", "value"]


class KVPlane(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor that every page owns for keys or for values: codes, or scales.

    A plane stores `elements` of `dtype` for one token of one KV head. The core allocates it as
    `[layers, pages, kv_heads, page_tokens, elements]`.
    """

    part: KVPart
    name: str
    dtype: str
    elements: int

    @property
    def bytes(self) -> int:
        """Bytes for one token of one KV head."""
        return self.elements * DTYPE_BYTES[self.dtype]


class KVLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The planes of a codec for one head dimension, keys first, in the order `encode` returns them."""

    planes: tuple[KVPlane, ...]

    def part(self, part: KVPart) -> tuple[KVPlane, ...]:
        return tuple(plane for plane in self.planes if plane.part == part)

    @property
    def bytes(self) -> int:
        """Bytes for one token of one KV head, keys and values together."""
        return sum(plane.bytes for plane in self.planes)


class KVCodec(Protocol):
    """Encode and decode in plain torch: the reference that every faster route is tested against."""

    layout: KVLayout

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`values` [..., head_dim] in the activation dtype -> one tensor [..., elements] for each plane of `part`."""
        ...

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        """The inverse: planes [..., elements] -> values [..., head_dim] in `dtype`."""
        ...
