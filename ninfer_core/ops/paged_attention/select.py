"""Which route of paged attention runs where."""

from __future__ import annotations

from typing import Literal

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.ops.paged_attention.composed import ComposedRoute
from ninfer_core.ops.paged_attention.reference import decode, prefill
from ninfer_core.ops.paged_attention.route import AttentionRoutes, AttentionShape


def select(
    device: torch.device, kernels: Literal["auto", "reference"], codec: KVCodec, shape: AttentionShape
) -> AttentionRoutes:
    """The routes for one plan; both are chosen together. The CPU is always the reference."""
    return AttentionRoutes(
        codec,
        prefill=ComposedRoute(codec, shape, prefill),
        decode=ComposedRoute(codec, shape, decode),
        name="reference",
    )
