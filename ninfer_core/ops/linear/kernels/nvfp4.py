"""Products of the kernel for few rows with nvfp4 codes, block scales included."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.linear.kernels.codes import BLOCK_SHIFT, e2m1


@triton.jit
def add_e2m1(even_sums, odd_sums, code, factor, first, second, third, fourth, ASSEMBLY: tl.constexpr):
    """Products of the four codes of a word, each multiplied with the scale of its block, in two sums: no dot waits for
    the one before it."""
    even_sums = tl.dot(e2m1(code, 0, ASSEMBLY) * factor, first, even_sums, input_precision="ieee")
    odd_sums = tl.dot(e2m1(code, 1, ASSEMBLY) * factor, second, odd_sums, input_precision="ieee")
    even_sums = tl.dot(e2m1(code, 2, ASSEMBLY) * factor, third, even_sums, input_precision="ieee")
    return even_sums, tl.dot(e2m1(code, 3, ASSEMBLY) * factor, fourth, odd_sums, input_precision="ieee")


@triton.jit
def word_factors(block_scale, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, LIKE: tl.constexpr):
    """block_scale [OUTPUTS, INPUTS / 16] -> [OUTPUTS, INPUTS / 4] in LIKE, the dtype of x: scale · BLOCK_SHIFT for
    each word of codes."""
    scale = (block_scale.to(tl.float32) * BLOCK_SHIFT).to(LIKE)
    return tl.reshape(tl.broadcast_to(scale[:, :, None], (OUTPUTS, INPUTS // 16, 4)), (OUTPUTS, INPUTS // 4))
