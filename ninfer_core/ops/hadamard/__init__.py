"""The orthonormal Hadamard transform over the last axis.

    y[i] = n^(-1/2) · Σ_j (−1)^popcount(i & j) · x[j]          i, j in [0, n),  n a power of two

    x  [..., n]  any float dtype
    y  [..., n]  float32

It is symmetric and its own inverse, and leaves the product of two transformed vectors what it was. The sums are taken
in log2(n) stages of float32 additions in one order, stage s pairing elements whose indices differ in bit s, and the
factor is applied at the end: so every route gives the same bits. Nothing is aliased and nothing else is written.

Kernels that have a row in registers use `ninfer_core.ops.hadamard.triton.transformed` instead of a launch.
"""

from __future__ import annotations

from ninfer_core.ops.hadamard.reference import hadamard

__all__ = ["hadamard"]
