"""float32 values as integers of the same order, so that a value and an index can be compared at once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def ordered_bits(values):
    """float32 -> int32 in the same order; -0.0 is 0.0, and a NaN of positive sign is above everything."""
    bits = (values + 0.0).to(tl.int32, bitcast=True)
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)


@triton.jit
def value_of_bits(ordered):
    """The float32 value whose `ordered_bits` these are."""
    return tl.where(ordered >= 0, ordered, ordered ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)
