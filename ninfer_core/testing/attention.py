"""Attention routes on random rows, and what they should give: softmax in float64 over the values that pages hold.

The oracle starts from the stored rows as the codec's reference decodes them, so it measures a route and not a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api.kv import KVCodec, KVPart
from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.hadamard import hadamard
from ninfer_core.ops.paged_attention import AttentionRoute, AttentionShape, PagedRows, append

BEYOND = 1 << 30
"""What block tables have behind a row's last page, for routes that must not look there."""


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """One unit of work of `columns` columns in rows with `lengths` tokens. Every byte that no row wrote is 0xFF, which
    is not a number in every float format."""

    codec: KVCodec
    shape: AttentionShape
    lengths: tuple[int, ...]
    projected: torch.Tensor
    norms: HeadNorms
    rotation: Rotation
    rows: PagedRows
    scale: float

    @property
    def columns(self) -> int:
        return self.projected.shape[1]

    def run(self, route: AttentionRoute) -> torch.Tensor:
        return route.attend_projected(self.projected, self.norms, self.rotation, self.rows, self.scale)

    def expected(self, columns: Sequence[int]) -> torch.Tensor:
        """After `run`: float64 [rows, len(columns), query_heads * head_dim]."""
        shape = self.shape
        query_gate = self.projected[..., : 2 * shape.query_heads * shape.head_dim].double()
        chosen = query_gate[:, list(columns)].view(len(self.lengths), -1, shape.query_heads, 2, shape.head_dim)
        rotation = Rotation(self.rotation.cos[:, list(columns)], self.rotation.sin[:, list(columns)])
        query = rotated_exactly(chosen[..., 0, :], self.norms.query, self.norms.epsilon, rotation)
        query = transformed_exactly(self.codec, "key", query)
        out = [self._row(row, length, query[row], columns) for row, length in enumerate(self.lengths)]
        read = transformed_exactly(self.codec, "value", torch.stack(out))
        return (read * torch.sigmoid(chosen[..., 1, :])).flatten(2)

    def _row(self, row: int, length: int, query: torch.Tensor, columns: Sequence[int]) -> torch.Tensor:
        """query [len(columns), query_heads, head_dim] -> the same shape."""
        keys, values = (self.stored(row, part, length + self.columns) for part in ("key", "value"))
        seen = length + 1 + torch.tensor(list(columns), device=query.device)
        unseen = torch.arange(length + self.columns, device=query.device) >= seen.unsqueeze(1)
        out = torch.empty_like(query)
        for head in range(self.shape.query_heads):
            kv_head = head // self.shape.group
            scores = query[:, head] @ keys[:, kv_head].T * self.scale
            weights = torch.softmax(scores.masked_fill(unseen, -torch.inf), dim=-1)
            out[:, head] = weights @ values[:, kv_head]
        return out

    def stored(self, row: int, part: KVPart, tokens: int) -> torch.Tensor:
        """The first tokens of a row as its pages have them: float64 [tokens, kv_heads, head_dim]."""
        keys = len(self.codec.layout.part("key"))
        planes = self.rows.planes[:keys] if part == "key" else self.rows.planes[keys:]
        pages = self.rows.block_table[row, : -(-tokens // self.shape.page_tokens)].long()
        taken = tuple(plane[pages].transpose(1, 2).flatten(0, 1)[:tokens] for plane in planes)
        return self.codec.decode(part, taken, torch.float32).double()


def random_case(
    codec: KVCodec, shape: AttentionShape, lengths: Sequence[int], columns: int, device: torch.device, pairs: int
) -> AttentionCase:
    """Rows whose pages are scattered over a pool; the tokens before the columns are stored already."""
    rows, most = len(lengths), max(lengths) + columns
    blocks = -(-most // shape.page_tokens)
    block_table = torch.full((rows, blocks + 2), BEYOND, dtype=torch.int32, device=device)
    needed = [-(-(length + columns) // shape.page_tokens) for length in lengths]
    order = torch.randperm(sum(needed) + 2, device=device).int()
    for row, count in enumerate(needed):
        block_table[row, :count] = order[sum(needed[:row]) : sum(needed[: row + 1])]
    planes = tuple(
        _poisoned(sum(needed) + 2, shape, plane.elements, plane.dtype, device) for plane in codec.layout.planes
    )
    for row, length in enumerate(lengths):
        if length:
            key, value = (torch.randn(1, length, shape.kv_heads, shape.head_dim, device=device) for _ in range(2))
            start = torch.zeros(1, dtype=torch.int64, device=device)
            append(codec, key, value, planes, block_table[row : row + 1], start)
    angle = torch.rand(rows, columns, pairs, device=device) * 6.3
    width = 2 * (shape.query_heads + shape.kv_heads) * shape.head_dim
    query_norm, key_norm = ((torch.randn(shape.head_dim, device=device) * 0.2).to(shape.activation_dtype) for _ in "qk")
    return AttentionCase(
        codec=codec,
        shape=shape,
        lengths=tuple(lengths),
        projected=torch.randn(rows, columns, width, device=device).to(shape.activation_dtype),
        norms=HeadNorms(query_norm, key_norm, epsilon=1e-6),
        rotation=Rotation(angle.cos(), angle.sin()),
        rows=PagedRows(planes, block_table, torch.tensor(list(lengths), device=device), most),
        scale=shape.head_dim**-0.5,
    )


def rotated_exactly(x: torch.Tensor, weight: torch.Tensor, epsilon: float, rotation: Rotation) -> torch.Tensor:
    """x float64 [rows, columns, heads, head_dim], normed and rotated without a rounding between."""
    x = x / torch.sqrt(x.square().mean(-1, keepdim=True) + epsilon) * (1 + weight.double())
    pairs = rotation.cos.shape[-1]
    turned = torch.complex(x[..., :pairs], x[..., pairs : 2 * pairs])
    turned = turned * torch.complex(rotation.cos.double(), rotation.sin.double()).unsqueeze(2)
    return torch.cat((turned.real, turned.imag, x[..., 2 * pairs :]), dim=-1)


def transformed_exactly(codec: KVCodec, part: KVPart, x: torch.Tensor) -> torch.Tensor:
    """x float64 [..., head_dim] under the transform of the part, by its matrix."""
    if codec.layout.transform(part) == "none":
        return x
    # The columns of an identity give the matrix; its entries are ±n^(-1/2).
    signs = hadamard(torch.eye(x.shape[-1], device=x.device)).sign().double()
    factor: float = x.shape[-1] ** -0.5
    return x @ signs * factor


def _poisoned(pages: int, shape: AttentionShape, elements: int, dtype: str, device: torch.device) -> torch.Tensor:
    kind = getattr(torch, dtype)
    plane = torch.empty(pages, shape.kv_heads, shape.page_tokens, elements, dtype=kind, device=device)
    plane.view(torch.uint8).fill_(0xFF)
    return plane
