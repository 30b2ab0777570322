"""The bytes that operations are said to need, against the tensors that they make."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops import causal_conv, gated_delta, moe, paged_attention
from ninfer_core.ops.accept import Drafts, accept
from ninfer_core.ops.block_attention import BlockShape, ReferenceBlockAttention, Ring
from ninfer_core.ops.block_conv import block_conv
from ninfer_core.ops.draft_walk import Codebooks, LogitTransform, draft_walk
from ninfer_core.ops.gated_delta import DeltaColumns, DeltaRecords
from ninfer_core.ops.gated_rms_norm import gated_rms_norm
from ninfer_core.ops.linear import DECODE_ROWS, encode_nvfp4, linear
from ninfer_core.ops.partial_rope import partial_rope, rope_angles
from ninfer_core.ops.rms_norm import rms_norm
from ninfer_core.ops.sample import ChosenRows, SamplerRows, SamplerTable, sample
from ninfer_core.ops.swiglu import swiglu
from ninfer_core.ops.workspace import accept as accept_bytes
from ninfer_core.ops.workspace import block_attention as block_bytes
from ninfer_core.ops.workspace import block_conv as block_conv_bytes
from ninfer_core.ops.workspace import causal_conv as conv_bytes
from ninfer_core.ops.workspace import draft_walk as walk_bytes
from ninfer_core.ops.workspace import gated_delta as delta_bytes
from ninfer_core.ops.workspace import gated_rms_norm as gated_norm_bytes
from ninfer_core.ops.workspace import linear as linear_bytes
from ninfer_core.ops.workspace import moe as moe_bytes
from ninfer_core.ops.workspace import paged_attention as attention_bytes
from ninfer_core.ops.workspace import partial_rope as rope_bytes
from ninfer_core.ops.workspace import rms_norm as norm_bytes
from ninfer_core.ops.workspace import sample as sample_bytes
from ninfer_core.ops.workspace import swiglu as swiglu_bytes
from ninfer_core.testing.harness import ExactCodec
from ninfer_core.testing.live_bytes import peak_bytes

SLACK_BYTES = 64 * 1024
"""Indices, row numbers and the like, which no bound counts."""
LOOSEST = 2.6
"""A bound may be this many times what is used: what is one tensor here may be two in another order of release."""
LOOSEST_OF_SMALL = 4.0
"""Where next to nothing is used, or a cast to float32 makes no copy."""

ACTIVATIONS = [torch.bfloat16, torch.float32]


def hold(bound: int, work: Callable[[], object], loosest: float = LOOSEST) -> None:
    used = peak_bytes(work)
    assert used <= bound + SLACK_BYTES, f"{used} bytes used, {bound} counted"
    assert bound <= loosest * used, f"{bound} bytes counted, {used} used"


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("rows", [1, 8, 300])
def test_matrix_products(rows: int, dtype: torch.dtype) -> None:
    x, weight = torch.zeros(rows, 512, dtype=dtype), torch.zeros(2048, 512, dtype=dtype)
    row_class = 0 if rows == 300 else DECODE_ROWS
    sizes: dict[str, Any] = {"rows": rows, "inputs": 512, "outputs": 2048, "row_class": row_class}
    sizes["activation"] = dtype.itemsize
    hold(linear_bytes.reference_bytes(**sizes), lambda: linear(x, weight, row_class))
    matrix = encode_nvfp4(weight + 1)
    hold(linear_bytes.reference_bytes(**sizes, coded=True), lambda: linear(x, matrix, row_class), LOOSEST_OF_SMALL)


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
def test_elementwise_operations(dtype: torch.dtype) -> None:
    x, weight, size = torch.zeros(400, 512, dtype=dtype), torch.zeros(512), dtype.itemsize
    wide = torch.zeros(400, 512)
    hold(norm_bytes.workspace_bytes(elements=x.numel()), lambda: rms_norm(x, weight, 1e-6))
    for activation in ("silu", "sigmoid"):
        bound = gated_norm_bytes.workspace_bytes(elements=x.numel(), activation=size)
        hold(bound, lambda: gated_rms_norm(wide, x, weight, 1e-6, activation))  # noqa: B023
    hold(swiglu_bytes.workspace_bytes(elements=x.numel() // 2, activation=size), lambda: swiglu(x))


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
def test_rotation(dtype: torch.dtype) -> None:
    tokens, heads, head_dim, pairs = 300, 8, 64, 32
    positions = torch.arange(tokens).expand(3, 1, tokens)
    frequency, axis = torch.ones(pairs), torch.zeros(pairs, dtype=torch.int64)
    cos, sin = rope_angles(positions, frequency, axis)
    held = cos.untyped_storage().nbytes() + sin.untyped_storage().nbytes()
    assert held <= rope_bytes.angle_bytes(tokens=tokens, pairs=pairs)
    x = torch.zeros(1, tokens, heads, head_dim, dtype=dtype)
    bound = rope_bytes.workspace_bytes(elements=x.numel(), activation=dtype.itemsize)
    hold(bound, lambda: partial_rope(x, cos, sin), LOOSEST_OF_SMALL)


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 300), (8, 1), (4, 5)])
def test_convolution(rows: int, columns: int, dtype: torch.dtype) -> None:
    channels, width = 2048, 4
    x, weight = torch.zeros(rows, columns, channels, dtype=dtype), torch.zeros(channels, width)
    ring = torch.zeros(8, width - 1 + 2 * min(columns, 16), channels, dtype=dtype)
    slots, lengths = torch.arange(rows), torch.ones(rows, dtype=torch.int64)
    bound = conv_bytes.workspace_bytes(
        rows=rows, columns=columns, channels=channels, width=width, activation=dtype.itemsize
    )
    if columns > 16:
        hold(bound, lambda: causal_conv.prefill(x, weight, ring, slots, lengths))
    else:
        hold(bound, lambda: causal_conv.decode(x, weight, ring, slots, lengths), LOOSEST_OF_SMALL)


@pytest.mark.parametrize(("rows", "columns"), [(1, 200), (1, 64), (8, 1), (3, 4)])
def test_the_delta_rule(rows: int, columns: int) -> None:
    key_heads, value_heads, width = 4, 12, 128
    inputs = DeltaColumns(
        query=torch.rand(rows, columns, key_heads, width).bfloat16(),
        key=torch.rand(rows, columns, key_heads, width).bfloat16(),
        value=torch.rand(rows, columns, value_heads, width).bfloat16(),
        a=torch.zeros(rows, columns, value_heads),
        b=torch.zeros(rows, columns, value_heads),
        a_log=torch.zeros(value_heads),
        dt_bias=torch.zeros(value_heads),
    )
    state = torch.zeros(8, value_heads, width, width)
    slots, accepted = torch.arange(rows), torch.ones(rows, dtype=torch.int64)
    sizes = {"rows": rows, "columns": columns, "value_heads": value_heads, "key_dim": width, "value_dim": width}
    if columns >= 64:
        hold(delta_bytes.prefill_bytes(**sizes), lambda: gated_delta.prefill(inputs, state, slots))
        return
    records = DeltaRecords(
        key=torch.zeros(8, 2 * columns, key_heads, width),
        update=torch.zeros(8, 2 * columns, value_heads, width),
        decay=torch.zeros(8, 2 * columns, value_heads),
    )
    bound = delta_bytes.decode_bytes(**sizes)
    hold(bound, lambda: gated_delta.decode(inputs, state, records, slots, accepted, accepted))


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 200), (8, 1)])
def test_attention(rows: int, columns: int, dtype: torch.dtype) -> None:
    query_heads, kv_heads, head_dim, context = 8, 2, 64, 1500
    codec = ExactCodec(head_dim, str(dtype).removeprefix("torch."))
    pages = rows * math.ceil(context / 64)
    planes = tuple(torch.zeros(pages, kv_heads, 64, head_dim, dtype=dtype) for _ in range(2))
    block_table = torch.arange(pages, dtype=torch.int32).view(rows, -1)
    lengths = torch.full((rows,), context - columns)
    query = torch.zeros(rows, columns, query_heads, head_dim, dtype=dtype)
    prefill = rows == 1
    bound = (attention_bytes.prefill_bytes if prefill else attention_bytes.decode_bytes)(
        rows=rows,
        columns=columns,
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        activation=dtype.itemsize,
    )
    attend = paged_attention.prefill if prefill else paged_attention.decode
    hold(bound, lambda: attend(codec, query, planes, block_table, lengths, 1.0, context))


@pytest.mark.parametrize("tokens", [8, 200])
def test_experts(tokens: int) -> None:
    hidden, width, experts, per_token, dtype = 256, 64, 32, 4, torch.bfloat16
    x = torch.rand(tokens, hidden).to(dtype)
    router = torch.rand(experts, hidden).to(dtype)
    gate_up, down = (
        torch.zeros(experts, 2 * width, hidden, dtype=dtype),
        torch.zeros(experts, hidden, width, dtype=dtype),
    )
    hold(
        moe_bytes.routing_bytes(rows=tokens, experts=experts, activation=2),
        lambda: moe.route(x, router, per_token),
    )
    routing = moe.route(x, router, per_token)
    if tokens == 8:
        bound = moe_bytes.decode_bytes(tokens=tokens, hidden=hidden, width=width, activation=2)
        hold(bound, lambda: moe.decode(x, gate_up, down, routing))
    else:
        bound = moe_bytes.prefill_bytes(tokens=tokens, per_token=per_token, hidden=hidden, width=width, activation=2)
        hold(bound, lambda: moe.prefill(x, gate_up, down, routing))


@pytest.mark.parametrize("rows", [1, 8])
def test_sampling(rows: int) -> None:
    vocabulary_rows = 20_000
    values = torch.full((rows,), 0.9)
    whole = torch.arange(rows)
    parameters = SamplerRows(
        temperature=values,
        top_p=values,
        top_k=torch.full((rows,), 20),
        min_p=values,
        presence_penalty=values,
        frequency_penalty=values,
        seed=whole,
    )
    logits = torch.rand(rows, vocabulary_rows)
    counts = torch.zeros(8, vocabulary_rows, dtype=torch.int32)
    bound = sample_bytes.workspace_bytes(rows=rows, vocabulary_rows=vocabulary_rows)
    hold(bound, lambda: sample(logits, parameters, counts, whole, whole, vocabulary_rows - 7))


@pytest.mark.parametrize("rows", [1, 4])
def test_acceptance(rows: int) -> None:
    vocabulary_rows, columns = 20_000, 4
    whole = torch.arange(rows)
    table = SamplerTable(torch.full((rows, 5), 0.9), torch.full((rows,), 20), whole)
    logits = torch.rand(rows * columns, vocabulary_rows).bfloat16()
    counts = torch.zeros(8, vocabulary_rows, dtype=torch.int32)
    token_ids = torch.zeros(rows, columns - 1, dtype=torch.int64)
    law_ids = torch.arange(16).expand(rows, columns - 1, 16)
    drafts = Drafts(token_ids, whole.clamp(max=3), law_ids, torch.full(law_ids.shape, 1 / 16))
    positions = torch.arange(columns).expand(rows, columns)
    chosen = ChosenRows(table, counts, whole, positions, vocabulary_rows - 7)
    bound = accept_bytes.workspace_bytes(rows=rows, columns=columns, vocabulary_rows=vocabulary_rows)
    hold(bound, lambda: accept(logits, drafts, chosen))


@pytest.mark.parametrize("dtype", ACTIVATIONS, ids=str)
def test_operations_of_block_drafters(dtype: torch.dtype) -> None:
    rows, columns, width, heads, kv_heads, head_dim, ring = 4, 8, 512, 8, 2, 64, 300
    x, base = torch.zeros(rows, columns, width, dtype=dtype), torch.zeros(2, width)
    delta = torch.zeros(rows, columns, 2, width // 16, dtype=dtype)
    bound = block_conv_bytes.workspace_bytes(elements=x.numel(), activation=dtype.itemsize, kernels=False)
    hold(bound, lambda: block_conv(x, base, delta, x))

    logits, states = torch.rand(rows, columns - 1, 20_000).to(dtype), torch.rand(rows, columns - 1, 32).to(dtype)
    codes = Codebooks(torch.rand(20_000, 32).to(dtype), torch.rand(20_000, 32).to(dtype))
    whole, zeros = torch.arange(rows), torch.zeros(rows, columns - 1, dtype=torch.int64)
    bound = walk_bytes.workspace_bytes(rows=rows, drafts=columns - 1, proposed=20_000, rank=32, kernels=False)
    hold(
        bound,
        lambda: draft_walk(logits, None, states, codes, LogitTransform(), whole, zeros, torch.ones(rows), whole),
    )

    shape = BlockShape(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, window=ring + 1, causal=False)
    pool = Ring(*(torch.zeros(2, rows, kv_heads, ring, head_dim, dtype=dtype) for _ in range(2)))
    rotation = Rotation(*(torch.zeros(rows, columns, head_dim // 2) for _ in range(2)))
    norm, route = torch.zeros(head_dim), ReferenceBlockAttention()
    projected = torch.zeros(rows, columns, (heads + 2 * kv_heads) * head_dim, dtype=dtype)
    sizes = {"rows": rows, "columns": columns, "kv_heads": kv_heads, "head_dim": head_dim}
    sizes_of_all = sizes | {"query_heads": heads, "ring_tokens": ring, "activation": dtype.itemsize}
    bound = block_bytes.attend_bytes(**sizes_of_all, kernels=False)
    norms, lengths = HeadNorms(norm, norm, 1e-6), torch.full((rows,), 900)
    hold(bound, lambda: route.attend(shape, pool, 0, projected, norms, rotation, whole, lengths, 1.0))
    long = torch.zeros(1, 1000, 2, 2, kv_heads, head_dim, dtype=dtype)
    wide = Rotation(*(torch.zeros(1, 1000, head_dim // 2) for _ in range(2)))
    bound = block_bytes.store_bytes(rows=1, columns=ring, kv_heads=kv_heads, head_dim=head_dim)
    one = torch.full((1,), 1000)
    hold(bound, lambda: route.store(pool, long, torch.zeros(2, head_dim), 1e-6, wide, whole[:1], whole[:1], one))
