"""Attention of a block in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.block_attention.shape import BlockShape, Ring
from ninfer_core.ops.partial_rope import partial_rope
from ninfer_core.ops.rms_norm import rms_norm


class ReferenceBlockAttention:
    """Implements `BlockAttention`."""

    def store(
        self,
        ring: Ring,
        stored: torch.Tensor,
        key_norms: torch.Tensor,
        epsilon: float,
        rotation: Rotation,
        slots: torch.Tensor,
        first: torch.Tensor,
        counts: torch.Tensor,
    ) -> None:
        """See `BlockAttention`. Entries of columns that are not kept are written with what they hold."""
        size, columns = ring.tokens, stored.shape[1]
        last = min(size, columns)
        # The last `last` columns of those that are kept, and some in front of them or behind them in their place.
        begin = (counts - last).clamp(min=0)
        column = begin.unsqueeze(1) + torch.arange(last, device=counts.device)  # [rows, last]
        meant = ((column < counts.unsqueeze(1)) & (first.unsqueeze(1) + column >= 0))[:, :, None, None]
        row = torch.arange(stored.shape[0], device=counts.device).unsqueeze(1)
        index = (first.unsqueeze(1) + column) % size
        cos, sin = rotation.cos[row, column], rotation.sin[row, column]
        for layer, norm in enumerate(key_norms):
            keys, values = stored[row, column, layer].unbind(2)  # [rows, last, kv_heads, head_dim]
            keys = partial_rope(rms_norm(keys, norm, epsilon), cos, sin)
            for pool, new in ((ring.keys, keys), (ring.values, values)):
                place = (slots.unsqueeze(1), slice(None), index)
                pool[layer][place] = torch.where(meant, new, pool[layer][place])

    def attend(
        self,
        shape: BlockShape,
        ring: Ring,
        layer: int,
        projected: torch.Tensor,
        norms: HeadNorms,
        rotation: Rotation,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """See `BlockAttention`."""
        heads = [shape.query_heads, shape.kv_heads, shape.kv_heads]
        rows, columns, _ = projected.shape
        query, key, value = torch.split(projected.view(rows, columns, -1, shape.head_dim), heads, dim=2)
        query = partial_rope(rms_norm(query, norms.query, norms.epsilon), rotation.cos, rotation.sin)
        key = partial_rope(rms_norm(key, norms.key, norms.epsilon), rotation.cos, rotation.sin)
        seen = _seen(shape, ring.tokens, projected.shape[1], lengths)[:, None, None]
        some = seen.any(dim=3)[..., None]  # [rows, 1, 1, tokens, 1]: what nobody sees may be anything
        keys, values = (
            torch.cat((pool[layer].index_select(0, slots), own.transpose(1, 2)), dim=2).float()
            for pool, own in ((ring.keys, key), (ring.values, value))
        )
        keys, values = (torch.where(some[:, 0], each, 0.0) for each in (keys, values))
        # The queries of a KV head as rows of one product: a product for each would copy its keys for each.
        grouped = query.float().reshape(rows, columns, shape.kv_heads, shape.group, -1).permute(0, 2, 3, 1, 4)
        scores = (grouped.flatten(2, 3) @ keys.transpose(-1, -2)) * scale
        scores = scores.view(*grouped.shape[:4], -1)  # [rows, kv_heads, group, columns, tokens]
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        read = (weights.flatten(2, 3) @ values).view_as(grouped)
        return read.permute(0, 3, 1, 2, 4).flatten(2).to(projected.dtype)


def _seen(shape: BlockShape, size: int, columns: int, lengths: torch.Tensor) -> torch.Tensor:
    """bool [rows, columns, ring + columns]: entries of the ring, then columns of the block."""
    column = torch.arange(columns, device=lengths.device)
    length = lengths.view(-1, 1, 1)
    entry = torch.arange(size, device=lengths.device)
    position = length - 1 - (length - 1 - entry) % size  # the last one before L that lies at this entry
    context = (position >= 0).expand(-1, columns, -1)
    if shape.window is not None:
        context = context & (length + column.unsqueeze(1) - position < shape.window)
    own = column <= column.unsqueeze(1) if shape.causal else torch.ones_like(column <= column.unsqueeze(1))
    return torch.cat((context, own.expand(len(lengths), -1, -1)), dim=2)
