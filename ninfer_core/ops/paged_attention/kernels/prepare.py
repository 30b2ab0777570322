"""From the projection to queries that can be multiplied and to keys and values in their pages, in one launch.

A program has one head and TOKENS consecutive tokens of the unit of work. Heads are counted through: those of queries,
then of keys, then of values. Both roundings of the contract are done, so that stored bytes are those of the reference
up to the order of the sum under the norm.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.hadamard.triton import transformed
from ninfer_core.ops.kernels.attention import normed_and_rotated
from ninfer_core.ops.kernels.dependent import follow


@triton.jit(
    do_not_specialize=["tokens", "columns", "blocks"],
    do_not_specialize_on_alignment=["block_table", "lengths", "cos", "sin"],
)
def prepare(
    projected,  # [rows * columns, (2 QUERY_HEADS + 2 KV_HEADS) HEAD_DIM]
    query,  # [rows * columns, QUERY_HEADS, HEAD_DIM]: written, in the dtype of products
    query_norm,
    key_norm,
    cos,  # [rows * columns, PAIRS]
    sin,
    key_planes,
    value_planes,
    block_table,  # [rows, blocks]
    lengths,  # [rows]
    tokens,  # rows * columns
    columns,
    blocks,
    epsilon,
    QUERY_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAIRS: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    TOKENS: tl.constexpr,
    KEY_STORE: tl.constexpr,
    VALUE_STORE: tl.constexpr,
    KEY_TRANSFORM: tl.constexpr,
    VALUE_TRANSFORM: tl.constexpr,
    STAGES: tl.constexpr,
    FACTOR: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    follow(DEPENDENT)
    part = tl.program_id(0)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    inside = token < tokens
    element = tl.arange(0, HEAD_DIM)
    of_token = projected + token.to(tl.int64) * (2 * (QUERY_HEADS + KV_HEADS) * HEAD_DIM)
    if part < QUERY_HEADS:
        first = of_token + part * 2 * HEAD_DIM
        x = normed_and_rotated(first, query_norm, cos, sin, token, inside, epsilon, HEAD_DIM, PAIRS)
        if KEY_TRANSFORM:
            x = transformed(x, TOKENS, HEAD_DIM, STAGES, FACTOR)
        place = (token.to(tl.int64) * QUERY_HEADS + part) * HEAD_DIM
        tl.store(query + place[:, None] + element[None, :], x.to(query.dtype.element_ty), mask=inside[:, None])
    else:
        row = token // columns
        position = tl.load(lengths + row, mask=inside, other=0).to(tl.int32) + token % columns
        page = tl.load(block_table + row * blocks + position // PAGE_TOKENS, mask=inside, other=0).to(tl.int64)
        head = (part - QUERY_HEADS) % KV_HEADS
        stored = (page * KV_HEADS + head) * PAGE_TOKENS + position % PAGE_TOKENS
        first = of_token + (QUERY_HEADS + part) * HEAD_DIM
        if part < QUERY_HEADS + KV_HEADS:
            x = normed_and_rotated(first, key_norm, cos, sin, token, inside, epsilon, HEAD_DIM, PAIRS)
            if KEY_TRANSFORM:
                x = transformed(x, TOKENS, HEAD_DIM, STAGES, FACTOR)
            KEY_STORE(key_planes, stored, inside, x, HEAD_DIM)
        else:
            x = tl.load(first[:, None] + element[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
            if VALUE_TRANSFORM:
                x = transformed(x, TOKENS, HEAD_DIM, STAGES, FACTOR)
            VALUE_STORE(value_planes, stored, inside, x, HEAD_DIM)
