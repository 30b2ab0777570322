"""A KV dtype is a codec: how the keys and values of a token are laid out in a page, not how attention runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ninfer_core.api.artifact import DTYPE_BYTES

if TYPE_CHECKING:
    import torch

KVPart = Literal["key", "value"]

KVTransform = Literal["none", "hadamard"]
"""What is done to a row before it is encoded: nothing, or the orthonormal Hadamard transform over the head dimension
(`ops.hadamard`), which spreads an outlier over the whole row. The core does it, and its counterpart: queries are
transformed as keys are, results of attention as values are."""


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
    """The planes of a codec for one head dimension, keys first, in the order `encode` returns them.

    `device_functions` says that the codec is a KVDeviceCodec; without, attention runs on the torch reference.
    """

    planes: tuple[KVPlane, ...]
    key_transform: KVTransform = "none"
    value_transform: KVTransform = "none"
    device_functions: bool = False

    def part(self, part: KVPart) -> tuple[KVPlane, ...]:
        return tuple(plane for plane in self.planes if plane.part == part)

    def transform(self, part: KVPart) -> KVTransform:
        return self.key_transform if part == "key" else self.value_transform

    @property
    def bytes(self) -> int:
        """Bytes for one token of one KV head, keys and values together."""
        return sum(plane.bytes for plane in self.planes)


class KVCodec(Protocol):
    """Encode and decode in plain torch: the reference that every faster route is tested against."""

    layout: KVLayout

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`values` [..., head_dim] in the activation dtype, in float32 where they were transformed -> one tensor
        [..., elements] for each plane of `part`."""
        ...

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        """The inverse: planes [..., elements] -> values [..., head_dim] in `dtype`."""
        ...


@dataclass(frozen=True, slots=True)
class KVPartFunctions:
    """How the core's attention kernels read and write rows of keys, or of values: functions made with `triton.jit`.

    A row is one token of one KV head of one page; element e of row r of a plane lies at `plane + r * elements + e`.
    `planes` is the tuple of the part's plane pointers in the layout's order, `rows` int64 [tokens].

    load(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr) -> [tokens, head_dim] of DTYPE;
        zeros where `seen` [tokens] is false, whatever lies there. With `lanes` 2 a pair of tiles
        [tokens, head_dim / 2] instead, elements 0, 2, 4, ... and 1, 3, 5, ...: values have to be turned around for
        matrix units, which is quick for 16 bits at a time, and those are two neighbouring 8-bit codes.
    row_scale(planes, rows, seen) -> float32 [tokens], finite everywhere: a factor of the whole row that `load` has
        left out, for formats that have one: it is cheaper on scores and weights than on elements. None: no such factor.
    store(planes, rows, written, values, HEAD_DIM: tl.constexpr): encode `values` float32 [tokens, head_dim], which
        were transformed, where `written` [tokens] is true. The same bytes as `encode` gives.
    """

    load: Callable[..., Any]
    store: Callable[..., Any]
    row_scale: Callable[..., Any] | None = None
    lanes: Literal[1, 2] = 1


@dataclass(frozen=True, slots=True)
class KVDeviceFunctions:
    """`dot_dtype` is what loaded rows are multiplied in: one that holds every code exactly, or the activations' own
    dtype for `"activation"`."""

    key: KVPartFunctions
    value: KVPartFunctions
    dot_dtype: Literal["activation", "float16"] = "activation"


class KVDeviceCodec(KVCodec, Protocol):
    """A codec that runs in every attention kernel. Its layout says `device_functions`."""

    def device_functions(self) -> KVDeviceFunctions:
        """Called while a CUDA route is built. Triton is imported here, not before: not every machine has it."""
        ...
