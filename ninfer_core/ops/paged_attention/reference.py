"""Paged attention in plain torch: pages are gathered and decoded split by split, with a running softmax.

The running softmax bounds the temporaries by the split instead of the context, and makes an unseen split an exact
no-op: its maximum is the old one, its weights are exact zeros.
"""

from __future__ import annotations

import torch

from ninfer_core.api.kv import KVCodec, KVPart
from ninfer_core.ops.hadamard import hadamard
from ninfer_core.ops.workspace.paged_attention import DECODE_SPLIT_TOKENS, PREFILL_SPLIT_TOKENS


def append(
    codec: KVCodec,
    key: torch.Tensor,
    value: torch.Tensor,
    planes: tuple[torch.Tensor, ...],
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Store keys and values [rows, columns, kv_heads, head_dim] behind the `lengths` tokens of their rows."""
    columns, page_tokens = key.shape[1], planes[0].shape[2]
    token = lengths.long().unsqueeze(1) + torch.arange(columns, device=key.device)  # [rows, columns]
    page = block_table.long().gather(1, token // page_tokens).flatten()
    offset = (token % page_tokens).flatten()
    encoded = (
        *codec.encode("key", _transformed(codec, "key", key)),
        *codec.encode("value", _transformed(codec, "value", value)),
    )
    for plane, elements in zip(planes, encoded, strict=True):
        plane[page, :, offset] = elements.flatten(0, 1)


def decode(
    codec: KVCodec,
    query: torch.Tensor,
    planes: tuple[torch.Tensor, ...],
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    context_tokens: int,
) -> torch.Tensor:
    """query [rows, columns, query_heads, head_dim] -> the same shape; few columns in up to all rows."""
    return _attend(codec, query, planes, block_table, lengths, scale, context_tokens, DECODE_SPLIT_TOKENS)


def prefill(
    codec: KVCodec,
    query: torch.Tensor,
    planes: tuple[torch.Tensor, ...],
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    context_tokens: int,
) -> torch.Tensor:
    """query [rows, columns, query_heads, head_dim] -> the same shape; a chunk against its prefix and itself."""
    return _attend(codec, query, planes, block_table, lengths, scale, context_tokens, PREFILL_SPLIT_TOKENS)


def _attend(
    codec: KVCodec,
    query: torch.Tensor,
    planes: tuple[torch.Tensor, ...],
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    context_tokens: int,
    split_tokens: int,
) -> torch.Tensor:
    rows, columns, query_heads, head_dim = query.shape
    _, kv_heads, page_tokens, _ = planes[0].shape
    group = query_heads // kv_heads
    split_pages = max(1, split_tokens // page_tokens)
    queries = _grouped(_transformed(codec, "key", query).float() * scale, kv_heads)
    last = lengths.long().unsqueeze(1) + torch.arange(columns, device=query.device)  # [rows, columns]
    last = last.repeat(1, group).view(rows, 1, group * columns, 1)
    tokens = torch.arange(split_pages * page_tokens, device=query.device)

    shape = (rows, kv_heads, group * columns)
    peak = queries.new_full(shape, -torch.inf)
    total = queries.new_zeros(shape)
    sums = torch.zeros_like(queries)
    for start in range(0, context_tokens, split_pages * page_tokens):
        pages = _split_of(block_table, start // page_tokens, split_pages)
        keys, values = _gather(codec, planes, pages, query.dtype)
        unseen = (tokens + start) > last  # [rows, 1, group · columns, split tokens]
        # The last column sees most; what not even it sees may never have been written.
        values = values.masked_fill((tokens + start).view(1, 1, -1, 1) > last[:, :, -1:], 0.0)
        scores = torch.matmul(queries, keys.mT).masked_fill_(unseen, -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1))
        weights = torch.exp(scores - new_peak.unsqueeze(-1))
        kept = torch.exp(peak - new_peak)
        total = total * kept + weights.sum(-1)
        sums = sums * kept.unsqueeze(-1) + torch.matmul(weights, values)
        peak = new_peak
    out = _transformed(codec, "value", sums / total.unsqueeze(-1)).view(rows, kv_heads, group, columns, head_dim)
    return out.permute(0, 3, 1, 2, 4).reshape(rows, columns, query_heads, head_dim).to(query.dtype)


def _grouped(query: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """[rows, columns, query_heads, head_dim] -> [rows, kv_heads, group · columns, head_dim]: the queries of one KV head
    are one matrix."""
    rows, columns, query_heads, head_dim = query.shape
    grouped = query.view(rows, columns, kv_heads, query_heads // kv_heads, head_dim).permute(0, 2, 3, 1, 4)
    return grouped.reshape(rows, kv_heads, -1, head_dim)


def _transformed(codec: KVCodec, part: KVPart, x: torch.Tensor) -> torch.Tensor:
    return x if codec.layout.transform(part) == "none" else hadamard(x)


def _split_of(block_table: torch.Tensor, first: int, pages: int) -> torch.Tensor:
    """Columns [first, first + pages) of the block table; past its end its first page again, which is masked."""
    split = block_table[:, first : first + pages].long()
    missing = pages - split.shape[1]
    if missing == 0:
        return split
    return torch.cat((split, block_table[:, :1].long().expand(-1, missing)), dim=1)


def _gather(
    codec: KVCodec, planes: tuple[torch.Tensor, ...], pages: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pages [rows, n] -> decoded keys and values, each float32 [rows, kv_heads, n · page_tokens, head_dim]."""
    key_planes = len(codec.layout.part("key"))
    decoded: list[torch.Tensor] = []
    parts: tuple[tuple[KVPart, tuple[torch.Tensor, ...]], ...] = (
        ("key", planes[:key_planes]),
        ("value", planes[key_planes:]),
    )
    for part, owned in parts:
        taken = tuple(plane[pages].transpose(1, 2).flatten(2, 3) for plane in owned)
        decoded.append(codec.decode(part, taken, dtype).float())
    keys, values = decoded
    return keys, values
