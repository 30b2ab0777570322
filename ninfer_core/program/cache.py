"""The attention cache of one unit of work: codec and paged attention over the KV planes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.ops import paged_attention

Attend = Callable[
    [KVCodec, torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor, float, int], torch.Tensor
]
"""`paged_attention.prefill` or `paged_attention.decode`."""


class PagedCache:
    """Implements AttentionCache for the rows of one batch.

    planes        [layers, pages, kv_heads, page_tokens, elements] each
    block_table   [rows, blocks] int32
    lengths       [rows] int64: committed tokens before this batch's columns
    context_tokens bounds lengths + columns over all rows
    """

    __slots__ = ("_attend", "_block_table", "_codec", "_context_tokens", "_lengths", "_planes")

    def __init__(
        self,
        attend: Attend,
        codec: KVCodec,
        planes: tuple[torch.Tensor, ...],
        block_table: torch.Tensor,
        lengths: torch.Tensor,
        context_tokens: int,
    ) -> None:
        self._attend = attend
        self._codec = codec
        self._planes = planes
        self._block_table = block_table
        self._lengths = lengths
        self._context_tokens = context_tokens

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        planes = tuple(plane[layer] for plane in self._planes)
        paged_attention.append(self._codec, key, value, planes, self._block_table, self._lengths)
        return self._attend(self._codec, query, planes, self._block_table, self._lengths, scale, self._context_tokens)
