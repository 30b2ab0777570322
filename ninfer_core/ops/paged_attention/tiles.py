"""Sizes that the kernels of paged attention work in, by shape class: a table, measured on an H200.

With 24 query heads on 4 KV heads of 256 elements: a round over 65,536 tokens reads bf16 pages at 3.99 TB/s (one row)
and 4.45 TB/s (eight), fp8 pages at 3.07 and 3.34 TB/s; over 128 tokens its three launches take 6.2 microseconds.
A round of 4 columns over 8,000 tokens takes 16 microseconds (one row) and 98 (eight), over fp8 pages 31 and 121; of 8
columns 28 and 123, over fp8 pages 55 and 203.
A chunk of 8,192 columns runs at 476 TFLOP/s, over fp8 pages at 471 with their unpacking.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.api.kv import KVLayout
from ninfer_core.ops.paged_attention.route import AttentionShape
from ninfer_core.ops.workspace.paged_attention import is_narrow, most_splits

FEW_QUERIES = 64
"""Queries of a round on one KV head up to which narrow formats take 4 warps."""


@dataclass(frozen=True, slots=True)
class DecodeTiles:
    """`splits` is the most that a row's context is cut into, a power of two; `tokens` of the context are looked at at
    once, `stages` of them are under way."""

    splits: int
    tokens: int
    stages: int
    warps: int
    prepare_warps: int
    combine_warps: int


@dataclass(frozen=True, slots=True)
class PrefillTiles:
    """`queries` columns against `tokens` of the context at once, `stages` of them under way."""

    queries: int
    tokens: int
    stages: int
    warps: int
    prepare_tokens: int
    prepare_warps: int
    unpack_tokens: int
    unpack_warps: int


def decode_tiles(shape: AttentionShape, layout: KVLayout) -> DecodeTiles:
    """A row of 16-bit elements keeps the memory busy with one program on each multiprocessor. Narrower ones have more
    arithmetic for a byte and take two to hide the waiting of each other, unless there are a few columns: what splits
    leave is as much as they read then."""
    pages = -(-shape.max_context // shape.page_tokens)
    splits = most_splits(kv_heads=shape.kv_heads, columns=shape.decode_columns)
    narrow = is_narrow(layout.bytes, shape.head_dim)
    few = shape.decode_columns > 1 and shape.decode_columns * shape.group <= FEW_QUERIES
    splits = splits if narrow and not few else max(1, splits // 2)
    many = shape.decode_columns * shape.group > 32  # queries lie in shared memory then, beside the tiles
    return DecodeTiles(
        splits=min(splits, 1 << (pages - 1).bit_length()),
        tokens=64,
        stages=2 if many else 3,
        warps=8 if many and not (narrow and few) else 4,
        prepare_warps=1,
        combine_warps=4,
    )


def prefill_tiles(shape: AttentionShape) -> PrefillTiles:
    return PrefillTiles(
        queries=128, tokens=64, stages=2, warps=8, prepare_tokens=8, prepare_warps=4, unpack_tokens=32, unpack_warps=4
    )
