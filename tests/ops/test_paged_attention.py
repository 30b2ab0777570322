"""Paged attention against softmax in float64 over the tokens themselves, which never saw a page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ninfer_core.api import KVPart, KVPlane
from ninfer_core.ops import paged_attention
from ninfer_core.ops.paged_attention.reference import DECODE_SPLIT_TOKENS, PREFILL_SPLIT_TOKENS
from ninfer_core.testing.harness import ExactCodec
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

PAGE, KV_HEADS, GROUP, DIM = 64, 2, 3, 16
SCALE = DIM**-0.5
Attend = Callable[..., torch.Tensor]
BOTH = pytest.mark.parametrize("attend", [paged_attention.decode, paged_attention.prefill])


class HalvingCodec(ExactCodec):
    """Two planes a part: a code and a scale, as a quantised format has. Exact: it divides by a power of two."""

    def __init__(self, head_dim: int) -> None:
        super().__init__(head_dim, "float32")
        planes = [
            KVPlane(part=part, name=f"{part} {name}", dtype="float32", elements=elements)
            for part in ("key", "value")
            for name, elements in (("code", head_dim), ("scale", 1))
        ]
        self.layout = type(self.layout)(planes=tuple(planes))

    def encode(self, part: KVPart, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        factor = 4.0 if part == "key" else 0.5
        return values / factor, torch.full_like(values[..., :1], factor)

    def decode(self, part: KVPart, planes: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
        return (planes[0] * planes[1]).to(dtype)


class Pages:
    """Rows with pages handed out in a scattered order; what nobody wrote is not a number."""

    def __init__(self, codec: ExactCodec, rows: int, blocks: int, dtype: torch.dtype = torch.float32) -> None:
        self.codec = codec
        pages = rows * blocks + 2
        self.block_table = torch.randperm(pages)[: rows * blocks].view(rows, blocks).int()
        self.planes = tuple(
            torch.full((pages, KV_HEADS, PAGE, plane.elements), torch.nan, dtype=dtype) for plane in codec.layout.planes
        )

    def fill(self, key: torch.Tensor, value: torch.Tensor, lengths: list[int]) -> None:
        """Store tokens [0, length) of each row of key and value [rows, tokens, kv_heads, head_dim]."""
        for row, length in enumerate(lengths):
            if length:
                one = slice(row, row + 1)
                paged_attention.append(
                    self.codec, key[one, :length], value[one, :length], self.planes, self.block_table[one], _zero(1)
                )


def _zero(rows: int) -> torch.Tensor:
    return torch.zeros(rows, dtype=torch.int32)


def _random(rows: int, tokens: int, heads: int) -> torch.Tensor:
    return torch.randn(rows, tokens, heads, DIM)


def _oracle(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, length: int) -> torch.Tensor:
    """One row: query [columns, query_heads, d] at positions length.., key, value [tokens, kv_heads, d]."""
    out = torch.zeros(query.shape, dtype=torch.float64)
    for column in range(query.shape[0]):
        for head in range(query.shape[1]):
            seen = length + column + 1
            scores = key[:seen, head // GROUP].double() @ query[column, head].double() * SCALE
            out[column, head] = torch.softmax(scores, 0) @ value[:seen, head // GROUP].double()
    return out


def _columns_of(x: torch.Tensor, lengths: list[int], columns: int) -> torch.Tensor:
    return torch.stack([x[row, length : length + columns] for row, length in enumerate(lengths)])


def _run(
    attend: Attend,
    codec: ExactCodec,
    lengths: list[int],
    columns: int,
    spare: int = 0,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """-> actual and expected, both [rows, columns, query_heads, d]."""
    rows, most = len(lengths), max(lengths) + columns
    key, value, query = (_random(rows, most, heads).to(dtype) for heads in (KV_HEADS, KV_HEADS, KV_HEADS * GROUP))
    pages = Pages(codec, rows, -(-(most + spare) // PAGE), dtype)
    pages.fill(key, value, lengths)
    held = torch.tensor(lengths, dtype=torch.int32)
    new = [_columns_of(x, lengths, columns) for x in (query, key, value)]
    paged_attention.append(codec, new[1], new[2], pages.planes, pages.block_table, held)
    actual = attend(codec, new[0], pages.planes, pages.block_table, held, SCALE, most + spare)
    expected = [_oracle(new[0][row], key[row], value[row], length) for row, length in enumerate(lengths)]
    return actual, torch.stack(expected)


@BOTH
@pytest.mark.parametrize("columns", [1, 2, 16])
@pytest.mark.parametrize("length", [0, 1, 62, 63, 64, 65, 127])
def test_one_row_at_the_edges_of_pages(attend: Attend, length: int, columns: int) -> None:
    actual, expected = _run(attend, ExactCodec(DIM, "float32"), [length], columns)
    FP32_OPERATION.check(actual, expected)


@BOTH
@pytest.mark.parametrize("split", [DECODE_SPLIT_TOKENS, PREFILL_SPLIT_TOKENS])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_contexts_at_the_edges_of_splits(attend: Attend, split: int, beyond: int) -> None:
    actual, expected = _run(attend, ExactCodec(DIM, "float32"), [split + beyond - 1], 1)
    FP32_OPERATION.check(actual, expected)


@BOTH
def test_rows_of_different_lengths(attend: Attend) -> None:
    actual, expected = _run(attend, ExactCodec(DIM, "float32"), [0, 300, 63, 64, 5], 3, spare=100)
    FP32_OPERATION.check(actual, expected)


def test_a_chunk_against_its_prefix_and_itself() -> None:
    actual, expected = _run(paged_attention.prefill, ExactCodec(DIM, "float32"), [100], 150)
    FP32_OPERATION.check(actual, expected)


def test_codecs_with_several_planes() -> None:
    actual, expected = _run(paged_attention.decode, HalvingCodec(DIM), [70, 3], 2)
    FP32_OPERATION.check(actual, expected)


def test_bfloat16() -> None:
    actual, expected = _run(paged_attention.decode, ExactCodec(DIM, "bfloat16"), [70, 300], 2, dtype=torch.bfloat16)
    assert actual.dtype == torch.bfloat16
    BF16_OPERATION.check(actual, expected)


def test_large_scores_do_not_overflow() -> None:
    codec = ExactCodec(DIM, "float32")
    pages = Pages(codec, 1, 1)
    key, value = torch.full((1, 3, KV_HEADS, DIM), 100.0), _random(1, 3, KV_HEADS)
    pages.fill(key, value, [3])
    query = torch.full((1, 1, KV_HEADS * GROUP, DIM), 100.0)
    actual = paged_attention.decode(codec, query, pages.planes, pages.block_table, _zero(1) + 2, SCALE, 3)
    FP32_OPERATION.check(actual[0, 0, 0], value[0, :, 0].mean(0))


def test_append_writes_its_own_places_only() -> None:
    codec = ExactCodec(DIM, "float32")
    pages = Pages(codec, 2, 2)
    lengths = torch.tensor([62, 0], dtype=torch.int32)
    key, value = _random(2, 4, KV_HEADS), _random(2, 4, KV_HEADS)
    paged_attention.append(codec, key, value, pages.planes, pages.block_table, lengths)
    for plane, stored in zip(pages.planes, (key, value), strict=True):
        written = ~plane.isnan().all(-1)  # [pages, kv_heads, page_tokens]
        assert int(written.sum()) == 2 * 4 * KV_HEADS
        first, second = pages.block_table[0].tolist()
        assert torch.equal(plane[first, :, 62:].transpose(0, 1), stored[0, :2])
        assert torch.equal(plane[second, :, :2].transpose(0, 1), stored[0, 2:])
        assert torch.equal(plane[int(pages.block_table[1, 0]), :, :4].transpose(0, 1), stored[1])


def test_no_columns_write_nothing() -> None:
    pages = Pages(ExactCodec(DIM, "float32"), 1, 1)
    empty = _random(1, 0, KV_HEADS)
    paged_attention.append(pages.codec, empty, empty, pages.planes, pages.block_table, _zero(1))
    assert all(plane.isnan().all() for plane in pages.planes)


@BOTH
def test_a_row_depends_neither_on_the_others_nor_on_the_bound(attend: Attend) -> None:
    codec, lengths, columns = ExactCodec(DIM, "float32"), [70, 600, 3, 256], 2
    rows, most = len(lengths), max(lengths) + columns
    key, value, query = (_random(rows, most, heads) for heads in (KV_HEADS, KV_HEADS, KV_HEADS * GROUP))
    pages = Pages(codec, rows, 20)
    pages.fill(key, value, [length + columns for length in lengths])
    held, asked = torch.tensor(lengths), _columns_of(query, lengths, columns)
    together = attend(codec, asked, pages.planes, pages.block_table, held, SCALE, most)
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        for bound in (length + columns, most, 20 * PAGE):
            alone = attend(codec, asked[one], pages.planes, pages.block_table[one], held[one], SCALE, bound)
            assert torch.equal(alone[0], together[row])
