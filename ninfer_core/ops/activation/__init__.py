"""Elementwise activations whose value at an element does not depend on where in a tensor the element stands.

    sigmoid(x)  = 1 / (1 + e^−x)
    silu(x)     = x / (1 + e^−x)
    softplus(x) = max(x, 0) + log(1 + e^−|x|)

    x, y  any shape, float32

torch's own have two implementations on the CPU, one for full vectors and one for what is left over at the end of a
tensor or of a thread's share. They differ in the last bit, so that with them a request's numbers would depend on its
batch mates. Exponential and logarithm have one.

Nothing is aliased and nothing else is written.
"""

from __future__ import annotations

from ninfer_core.ops.activation.reference import sigmoid, silu, softplus

__all__ = ["sigmoid", "silu", "softplus"]
