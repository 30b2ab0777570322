"""Kernels around device functions alone, a codec's and the core's, for their tests. Needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.hadamard.triton import transformed


@triton.jit
def store_rows(planes, rows, written, values, STORE: tl.constexpr, TOKENS: tl.constexpr, HEAD_DIM: tl.constexpr):
    """values float32 [TOKENS, HEAD_DIM] to the rows [TOKENS] of the planes where `written` [TOKENS] is 1."""
    token = tl.arange(0, TOKENS)
    x = tl.load(values + token[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :])
    STORE(planes, tl.load(rows + token), tl.load(written + token) == 1, x, HEAD_DIM)


@triton.jit
def load_rows(
    planes,
    rows,
    seen,
    out,
    LOAD: tl.constexpr,
    ROW_SCALE: tl.constexpr,
    LANES: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """out float32 [TOKENS, HEAD_DIM]: what the rows hold, with the factor of the whole row."""
    token = tl.arange(0, TOKENS)
    wanted = tl.load(seen + token) == 1
    x = LOAD(planes, tl.load(rows + token), wanted, HEAD_DIM, tl.float32)
    if LANES == 2:
        x = tl.reshape(tl.join(x[0], x[1]), (TOKENS, HEAD_DIM))
    if ROW_SCALE is not None:
        x = x * ROW_SCALE(planes, tl.load(rows + token), wanted)[:, None]
    tl.store(out + token[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :], x)


@triton.jit
def transform_rows(x, TOKENS: tl.constexpr, HEAD_DIM: tl.constexpr, STAGES: tl.constexpr, FACTOR: tl.constexpr):
    """x float32 [TOKENS, HEAD_DIM], in place."""
    places = x + tl.arange(0, TOKENS)[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(places, transformed(tl.load(places), TOKENS, HEAD_DIM, STAGES, FACTOR))
