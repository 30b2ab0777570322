"""Rows that stand behind a long context without a prompt having been run: their keys and values are random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ninfer_core.api.geometry import Geometry
from ninfer_core.api.kv import KVCodec
from ninfer_core.plan.memory import PAGE_TOKENS

PAGES_AT_ONCE = 64


class RandomContext:
    """Writes pages through the codec, so that what attention reads is what it could have stored. Normal numbers of
    unit scale, the same for the same seed."""

    def __init__(self, codec: KVCodec, geometry: Geometry) -> None:
        self._codec = codec
        self._geometry = geometry

    def fill(self, planes: Sequence[torch.Tensor], pages: Sequence[int], seed: int) -> None:
        """planes [layers, pages, kv_heads, page_tokens, elements]: fill `pages` in all layers, those
        of a drafter too."""
        attention, device = self._geometry.attention, planes[0].device
        generator = torch.Generator(device).manual_seed(seed)
        for first in range(0, len(pages), PAGES_AT_ONCE):
            some = torch.tensor(pages[first : first + PAGES_AT_ONCE], device=device)
            shape = (len(some), attention.kv_heads, PAGE_TOKENS, attention.head_dim)
            for layer in range(planes[0].shape[0]):
                left = list(planes)
                for part in ("key", "value"):
                    values = torch.randn(shape, generator=generator, device=device)
                    for encoded in self._codec.encode(part, values):
                        plane = left.pop(0)[layer]
                        assert encoded.dtype == plane.dtype, "a codec encodes to what its layout says"
                        # As bytes: not every operation knows every dtype.
                        plane.view(torch.uint8).index_copy_(0, some, encoded.contiguous().view(torch.uint8))
