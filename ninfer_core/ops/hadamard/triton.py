"""The Hadamard transform of rows that a kernel has in registers. Imported only where a CUDA route was selected."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def transformed(x, TOKENS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, FACTOR: tl.constexpr):
    """x float32 [TOKENS, WIDTH] -> float32 of the same shape; STAGES = log2(WIDTH), FACTOR = WIDTH^(-1/2)."""
    for _ in tl.static_range(STAGES):
        even, odd = tl.split(tl.reshape(x, (TOKENS, WIDTH // 2, 2)))
        halves = tl.join(even + odd, even - odd)
        x = tl.reshape(tl.permute(halves, (0, 2, 1)), (TOKENS, WIDTH))
    return x * FACTOR
