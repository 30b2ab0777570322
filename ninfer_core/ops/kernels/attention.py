"""What kernels of every kind of attention begin with."""

from __future__ import annotations

import triton
import triton.language as tl

LEAST: tl.constexpr = tl.constexpr(-1.0e30)
"""The largest score of nothing. Finite, so that differences of two of them are."""


@triton.jit(do_not_specialize_on_alignment=["cos", "sin"])
def normed_and_rotated(first, weight, cos, sin, token, inside, epsilon, HEAD_DIM: tl.constexpr, PAIRS: tl.constexpr):
    """`first` [TOKENS] points at the first element of each token's head -> normed and rotated, float32
    [TOKENS, HEAD_DIM], with the two roundings to the activation dtype done."""
    element = tl.arange(0, HEAD_DIM)
    partner = tl.where(element < PAIRS, element + PAIRS, tl.where(element < 2 * PAIRS, element - PAIRS, element))
    dtype: tl.constexpr = first.dtype.element_ty
    x = tl.load(first[:, None] + element[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    other = tl.load(first[:, None] + partner[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / HEAD_DIM + epsilon)[:, None]
    x = x * scale * (1.0 + tl.load(weight + element).to(tl.float32))[None, :]
    other = other * scale * (1.0 + tl.load(weight + partner).to(tl.float32))[None, :]
    x, other = x.to(dtype).to(tl.float32), other.to(dtype).to(tl.float32)
    turned = inside[:, None] & (element < 2 * PAIRS)[None, :]
    angle = token[:, None] * PAIRS + (element % PAIRS)[None, :]
    cosine = tl.load(cos + angle, mask=turned, other=1.0)
    sine = tl.load(sin + angle, mask=turned, other=0.0)
    return (x * cosine + other * tl.where(element < PAIRS, -sine, sine)).to(dtype).to(tl.float32)
