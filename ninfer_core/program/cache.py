"""The attention cache of one unit of work: paged attention over the KV planes."""

from __future__ import annotations

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.ops import paged_attention
from ninfer_core.ops.paged_attention import AttentionRoute, AttentionRoutes, AttentionShape, PagedRows


class PagedCache:
    """Implements AttentionCache for the rows of one batch.

    planes        [layers, pages, kv_heads, page_tokens, elements] each
    block_table   [rows, blocks] int32
    lengths       [rows] int64: committed tokens before this batch's columns
    context_tokens bounds lengths + columns over all rows
    first_layer   which of `planes` is layer 0
    """

    __slots__ = ("_block_table", "_context_tokens", "_first_layer", "_lengths", "_planes", "_route")

    def __init__(
        self,
        route: AttentionRoute,
        planes: tuple[torch.Tensor, ...],
        block_table: torch.Tensor,
        lengths: torch.Tensor,
        context_tokens: int,
        first_layer: int = 0,
    ) -> None:
        self._route = route
        self._planes = planes
        self._block_table = block_table
        self._lengths = lengths
        self._context_tokens = context_tokens
        self._first_layer = first_layer

    def attend_projected(
        self, layer: int, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, scale: float
    ) -> torch.Tensor:
        planes = tuple(plane[self._first_layer + layer] for plane in self._planes)
        rows = PagedRows(planes, self._block_table, self._lengths, self._context_tokens)
        return self._route.attend_projected(projected, norms, rotation, rows, scale)


def attention_routes(plan: ExecutionPlan, codec: KVCodec, device: torch.device, kernels: Kernels) -> AttentionRoutes:
    """The routes that the plan's units of work attend by."""
    attention = plan.geometry.attention
    dtype = getattr(torch, plan.activation_dtype)
    assert isinstance(dtype, torch.dtype), f"activations of {plan.activation_dtype}"
    shape = AttentionShape(
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        page_tokens=plan.capacities.page_tokens,
        decode_columns=1 + plan.capacities.draft_tokens,
        max_context=plan.capacities.max_context + plan.capacities.draft_tokens,
        activation_dtype=dtype,
    )
    return paged_attention.select(device, kernels, codec, shape)
