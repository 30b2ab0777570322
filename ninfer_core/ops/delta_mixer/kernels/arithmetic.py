"""Arithmetic that every kernel of the mixer shares, so that prefill, decode and fold agree on it."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.gated_delta import values
from ninfer_core.ops.kernels.activation import sigmoid, silu

L2_EPSILON: tl.constexpr = tl.constexpr(values.L2_EPSILON)


@triton.jit
def log1p_of_fraction(e):
    """log(1 + e) for e in [0, 1], to float32: 2 artanh(e / (2 + e)) by its series, whose next term is 1.4e-8 of the
    sum. The hardware's logarithm of 1 + e would lose what a slow decay is made of."""
    s = e / (2.0 + e)
    square = s * s
    series = 1.0 / 13.0
    series = series * square + 1.0 / 11.0
    series = series * square + 1.0 / 9.0
    series = series * square + 1.0 / 7.0
    series = series * square + 1.0 / 5.0
    series = series * square + 1.0 / 3.0
    series = series * square + 1.0
    return 2.0 * s * series


@triton.jit
def log_decay(a, a_log, dt_bias):
    """g = −e^a_log · softplus(a + dt_bias)."""
    x = a + dt_bias
    return -tl.exp(a_log) * (tl.maximum(x, 0.0) + log1p_of_fraction(tl.exp(-tl.abs(x))))


@triton.jit
def opened(gate, SILU: tl.constexpr):
    """The activation of the output gate."""
    return silu(gate) if SILU else sigmoid(gate)
