"""The reference route: the operations one after the other, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.activation import sigmoid
from ninfer_core.ops.paged_attention.reference import append
from ninfer_core.ops.paged_attention.route import AttentionShape, PagedRows
from ninfer_core.ops.partial_rope import partial_rope
from ninfer_core.ops.rms_norm import rms_norm

Attend = Callable[
    [KVCodec, torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor, float, int], torch.Tensor
]
"""`reference.prefill` or `reference.decode`."""


@dataclass(frozen=True, slots=True)
class ComposedRoute:
    """Implements AttentionRoute for any codec, on any device."""

    codec: KVCodec
    shape: AttentionShape
    attend: Attend

    def attend_projected(
        self, projected: torch.Tensor, norms: HeadNorms, rotation: Rotation, rows: PagedRows, scale: float
    ) -> torch.Tensor:
        query, gate, key, value = split_projected(projected, self.shape)
        query = partial_rope(rms_norm(query, norms.query, norms.epsilon), rotation.cos, rotation.sin)
        key = partial_rope(rms_norm(key, norms.key, norms.epsilon), rotation.cos, rotation.sin)
        append(self.codec, key, value, rows.planes, rows.block_table, rows.lengths)
        read = self.attend(self.codec, query, rows.planes, rows.block_table, rows.lengths, scale, rows.context_tokens)
        return (read.float() * sigmoid(gate.float())).to(projected.dtype).flatten(2)


def split_projected(
    projected: torch.Tensor, shape: AttentionShape
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views of query, gate, key and value, each [rows, columns, heads, head_dim]."""
    kv_width = shape.kv_heads * shape.head_dim
    query_gate, key, value = torch.split(
        projected, [2 * shape.query_heads * shape.head_dim, kv_width, kv_width], dim=-1
    )
    # The gate follows the query head by head, not after all of them.
    query, gate = _heads(query_gate, 2 * shape.head_dim).chunk(2, dim=-1)
    return query, gate, _heads(key, shape.head_dim), _heads(value, shape.head_dim)


def _heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """[rows, columns, heads * width] -> [rows, columns, heads, width]."""
    return x.view(*x.shape[:-1], -1, width)
