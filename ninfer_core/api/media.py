"""What a media plugin supplies: nothing but bytes in, patches out, on the host pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class MediaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds the core owns and a plugin works under (contract MEDIA-3, MEDIA-4)."""

    max_source_bytes: int
    max_pixels: int
    max_patches: int


class MediaPatches(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded item: `patches` are packed bf16 rows, `grid` is (time, height, width) in patches."""

    patches: bytes
    patch_values: int
    grid: tuple[int, int, int]
    second_stamps: tuple[float, ...] = ()


class MediaDecoder(Protocol):
    """Decodes one modality; its exceptions become `invalid_media`."""

    def decode(self, source: bytes, limits: MediaLimits) -> MediaPatches: ...


MediaConfig = Mapping[str, object]
"""The artifact's own processor config, parsed."""
