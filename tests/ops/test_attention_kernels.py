"""The Triton routes of paged attention against softmax in float64, over every first-party format."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
import torch
from ninfer_kvformats import bf16, fp8

from ninfer_core.api import KVDeviceCodec
from ninfer_core.ops.paged_attention import AttentionShape
from ninfer_core.ops.paged_attention.composed import ComposedRoute
from ninfer_core.ops.paged_attention.reference import decode
from ninfer_core.ops.paged_attention.select import triton_routes
from ninfer_core.ops.workspace.paged_attention import decode_bytes
from ninfer_core.testing.attention import AttentionCase, random_case
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION, Tolerance

FORMATS = {"bf16": bf16, "fp8": fp8}
PAIRS = 4
DIM = 32


def codec_of(name: str, head_dim: int) -> KVDeviceCodec:
    plugin = FORMATS[name]
    return plugin.ninfer_kv_codec(plugin.ninfer_kv_layout(head_dim))


def make(
    name: str, device: torch.device, lengths: Sequence[int], columns: int, group: int = 2, kv_heads: int = 2
) -> AttentionCase:
    shape = AttentionShape(
        query_heads=group * kv_heads,
        kv_heads=kv_heads,
        head_dim=DIM,
        page_tokens=64,
        decode_columns=columns,
        max_context=256,
        activation_dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
    )
    return random_case(codec_of(name, DIM), shape, lengths, columns, device, PAIRS)


def tolerance(device: torch.device) -> Tolerance:
    return BF16_OPERATION if device.type == "cuda" else FP32_OPERATION


def check(case: AttentionCase, kind: str, device: torch.device) -> torch.Tensor:
    dot_dtype = None if device.type == "cuda" else torch.float32
    routes = triton_routes(case.codec, case.shape, dot_dtype)  # type: ignore[arg-type]
    actual = case.run(routes.prefill if kind == "prefill" else routes.decode)
    tolerance(device).check(actual, case.expected(range(case.columns)))
    return actual


KINDS = pytest.mark.parametrize("kind", ["decode", "prefill"])
NAMES = pytest.mark.parametrize("name", list(FORMATS))


@NAMES
@KINDS
@pytest.mark.parametrize(("length", "columns"), [(0, 1), (63, 1), (64, 2), (126, 3)])
def test_pages_and_their_edges(kernel_device: torch.device, name: str, kind: str, length: int, columns: int) -> None:
    check(make(name, kernel_device, [length], columns), kind, kernel_device)


@NAMES
@pytest.mark.parametrize("length", [5, 62])
def test_what_comes_behind_a_column_changes_nothing_of_it(kernel_device: torch.device, name: str, length: int) -> None:
    """Bit for bit, however large it is: drafts are compared with what would have come without them."""
    case = make(name, kernel_device, [length], 3)
    first = check(case, "decode", kernel_device)[:, :2].clone()
    case.projected[:, 2] *= 37.0
    assert torch.equal(check(case, "decode", kernel_device)[:, :2], first)


@NAMES
@KINDS
def test_rows_of_different_lengths(kernel_device: torch.device, name: str, kind: str) -> None:
    check(make(name, kernel_device, [130, 0, 63], 2), kind, kernel_device)


@pytest.mark.parametrize(("columns", "group"), [(1, 6), (1, 8), (3, 6), (16, 8)])
def test_groups_and_columns(kernel_device: torch.device, columns: int, group: int) -> None:
    check(make("bf16", kernel_device, [70], columns, group=group, kv_heads=1), "decode", kernel_device)


def test_more_tokens_than_splits(kernel_device: torch.device) -> None:
    check(make("fp8", kernel_device, [1000], 1, kv_heads=1), "decode", kernel_device)


def test_a_chunk_of_several_blocks_behind_a_prefix(kernel_device: torch.device) -> None:
    check(make("bf16", kernel_device, [70], 150, kv_heads=1), "prefill", kernel_device)


def test_a_chunk_over_codes_that_are_not_unpacked_first(kernel_device: torch.device) -> None:
    case = make("fp8", kernel_device, [70], 20)
    from ninfer_core.ops.paged_attention.chunks import PrefillKernels

    dot_dtype = None if kernel_device.type == "cuda" else torch.float32
    route = triton_routes(case.codec, case.shape, dot_dtype).prefill  # type: ignore[arg-type]
    assert isinstance(route, PrefillKernels) and route.unpacked
    actual = case.run(dataclasses.replace(route, unpacked=False))
    tolerance(kernel_device).check(actual, case.expected(range(case.columns)))


@NAMES
def test_only_the_columns_are_stored_and_as_the_reference_stores_them(kernel_device: torch.device, name: str) -> None:
    case = make(name, kernel_device, [62, 0], 3)
    before = [plane.view(torch.uint8).clone() for plane in case.rows.planes]
    check(case, "decode", kernel_device)
    after = [plane.clone() for plane in case.rows.planes]
    for plane, old in zip(case.rows.planes, before, strict=True):
        new = (plane.view(torch.uint8) != old).any(-1)  # [pages, kv_heads, page_tokens]
        assert int(new.sum()) == 2 * 3 * case.shape.kv_heads
        plane.view(torch.uint8).copy_(old)
    table = case.rows.block_table
    table.copy_(table.where(table < len(before[0]), 0))  # the reference looks behind the end of a row
    case.run(ComposedRoute(case.codec, case.shape, decode))
    for plane, written in zip(case.rows.planes, after, strict=True):
        if name == "bf16":  # the interpreter cuts off what it should round
            assert torch.allclose(plane.float(), written.float(), rtol=2**-7, atol=0.0, equal_nan=True)
        else:
            same = plane.view(torch.uint8) == written.view(torch.uint8)
            assert same.double().mean() > 0.999  # a sum under a norm in another order moves a code now and then


@NAMES
def test_a_row_does_not_depend_on_its_batch(kernel_device: torch.device, name: str) -> None:
    case = make(name, kernel_device, [70, 130, 3], 1)
    together = check(case, "decode", kernel_device)
    for row in range(3):
        one = slice(row, row + 1)
        alone = AttentionCase(
            codec=case.codec,
            shape=case.shape,
            lengths=case.lengths[one],
            projected=case.projected[one],
            norms=case.norms,
            rotation=type(case.rotation)(case.rotation.cos[one], case.rotation.sin[one]),
            rows=type(case.rows)(case.rows.planes, case.rows.block_table[one], case.rows.lengths[one], 1024),
            scale=case.scale,
        )
        assert torch.equal(check(alone, "decode", kernel_device), together[one])


@pytest.mark.parametrize("columns", [1, 5])
def test_a_round_stays_within_the_bytes_that_are_planned_for_it(kernel_device: torch.device, columns: int) -> None:
    case = make("fp8", kernel_device, [70], columns, group=8, kv_heads=1)
    shape = case.shape
    bound = decode_bytes(
        rows=1,
        columns=columns,
        query_heads=shape.query_heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        activation=case.projected.element_size(),
    )
    dot_dtype = None if kernel_device.type == "cuda" else torch.float32
    route = triton_routes(case.codec, shape, dot_dtype).decode  # type: ignore[arg-type]
    assert peak_bytes(lambda: case.run(route)) <= bound
