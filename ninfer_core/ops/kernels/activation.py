"""`ops.activation` within kernels: float32 in and out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def silu(x):
    """x / (1 + exp(-x)) in float32, the exponent kept from overflow: the quotient is nothing there either way."""
    return x / (1.0 + tl.exp(tl.minimum(-x, 88.0)))
