"""bf16 rows in Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    return tl.load(planes[0] + elements, mask=seen[:, None], other=0.0).to(DTYPE)


@triton.jit
def store(planes, rows, written, values, HEAD_DIM: tl.constexpr):
    elements = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(planes[0] + elements, values.to(tl.bfloat16), mask=written[:, None])
