"""Sizes that the kernels of paged attention work in, by shape class: a table, measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.ops.paged_attention.route import AttentionShape

SPLIT_PROGRAMS = 128
"""Programs that a long row keeps busy: nearly as many as an H200 has multiprocessors (132)."""


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


def decode_tiles(shape: AttentionShape) -> DecodeTiles:
    pages = -(-shape.max_context // shape.page_tokens)
    most = max(1, SPLIT_PROGRAMS // shape.kv_heads)
    splits = 1 << (min(most, pages) - 1).bit_length()
    return DecodeTiles(splits=splits, tokens=64, stages=2, warps=4, prepare_warps=1, combine_warps=4)


def prefill_tiles(shape: AttentionShape) -> PrefillTiles:
    return PrefillTiles(queries=128, tokens=64, stages=2, warps=8, prepare_tokens=8, prepare_warps=4)
