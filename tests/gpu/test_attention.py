"""Paged attention at published shapes on a CUDA device: both routes over both formats against softmax in float64, and a
row among others against the row alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from ninfer_kvformats import bf16, fp8

from ninfer_core.api import KVDeviceCodec, Rotation
from ninfer_core.ops.paged_attention import AttentionRoutes, AttentionShape, PagedRows, select
from ninfer_core.ops.paged_attention.composed import ComposedRoute
from ninfer_core.program.compilation import compiling_only
from ninfer_core.testing.attention import AttentionCase, random_case
from ninfer_core.testing.tolerances import BF16_OPERATION

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
FORMATS = {"bf16": bf16, "fp8": fp8}
HEADS = {"27b": (24, 4, 256), "35b-a3b": (16, 2, 256), "of 128": (16, 4, 128)}
PAIRS = 32
ROUNDS = (1, 4, 5, 8, 16)
"""Columns of rounds."""
SHORT = (0, 63, 64, 1000, 5000)
LONG = 65_535
CHUNKS = ((0, 1), (0, 64), (100, 300), (1000, 2049))
"""Tokens before a chunk, and its columns."""

MODELS = pytest.mark.parametrize("model", list(HEADS))


def routes_for(name: str, model: str, columns: int) -> tuple[KVDeviceCodec, AttentionShape, AttentionRoutes]:
    query_heads, kv_heads, head_dim = HEADS[model]
    shape = AttentionShape(
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=64,
        decode_columns=columns,
        max_context=131_072,
        activation_dtype=torch.bfloat16,
    )
    plugin = FORMATS[name]
    codec = plugin.ninfer_kv_codec(plugin.ninfer_kv_layout(head_dim))
    routes = select(CUDA, "auto", codec, shape)
    assert not isinstance(routes.decode, ComposedRoute), "kernels, of which the reference is no test"
    return codec, shape, routes


@pytest.fixture(scope="module", params=FORMATS)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """With the kernels compiled side by side: one after the other, each at its first launch, takes minutes."""
    with compiling_only():
        for model in HEADS:
            for columns in ROUNDS:
                codec, shape, routes = routes_for(request.param, model, columns)
                for lengths in (SHORT, (LONG,)):
                    random_case(codec, shape, lengths, columns, CUDA, PAIRS).run(routes.decode)
            codec, shape, routes = routes_for(request.param, model, 1)
            for length, columns in CHUNKS:
                random_case(codec, shape, (length,), columns, CUDA, PAIRS).run(routes.prefill)
    yield request.param


@MODELS
@pytest.mark.parametrize("columns", ROUNDS)
def test_rounds(name: str, model: str, columns: int) -> None:
    codec, shape, routes = routes_for(name, model, columns)
    case = random_case(codec, shape, SHORT, columns, CUDA, PAIRS)
    BF16_OPERATION.check(case.run(routes.decode), case.expected(range(columns)))


def test_a_round_at_a_long_context(name: str) -> None:
    codec, shape, routes = routes_for(name, "27b", 1)
    case = random_case(codec, shape, [LONG], 1, CUDA, PAIRS)
    BF16_OPERATION.check(case.run(routes.decode), case.expected([0]))


@MODELS
@pytest.mark.parametrize(("length", "columns"), CHUNKS)
def test_chunks(name: str, model: str, length: int, columns: int) -> None:
    codec, shape, routes = routes_for(name, model, 1)
    case = random_case(codec, shape, [length], columns, CUDA, PAIRS)
    chosen = sorted({0, columns // 2, max(0, columns - 2), columns - 1})
    BF16_OPERATION.check(case.run(routes.prefill)[:, chosen], case.expected(chosen))


def alone(case: AttentionCase, row: int) -> AttentionCase:
    one = slice(row, row + 1)
    rotation = Rotation(case.rotation.cos[one].clone(), case.rotation.sin[one].clone())
    rows = PagedRows(case.rows.planes, case.rows.block_table[one].clone(), case.rows.lengths[one].clone(), 1 << 17)
    lengths: Sequence[int] = case.lengths[one]
    projected = case.projected[one].clone()
    return AttentionCase(case.codec, case.shape, tuple(lengths), projected, case.norms, rotation, rows, case.scale)


@pytest.mark.parametrize("columns", [1, 4])
def test_a_row_is_the_same_alone_and_among_others(name: str, columns: int) -> None:
    codec, shape, routes = routes_for(name, "27b", columns)
    case = random_case(codec, shape, [70, 9000, 3, 256, 1, 4095, 64, 20_000], columns, CUDA, PAIRS)
    together = case.run(routes.decode)
    for row in range(len(case.lengths)):
        assert torch.equal(alone(case, row).run(routes.decode), together[row : row + 1])
