"""What a product with nvfp4 codes is made of; `linear.arrangement` says how these lie."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.codes import BLOCK_SHIFT, e2m1


@triton.jit
def add_e2m1(even_sums, odd_sums, code, factor, first, second, third, fourth, ASSEMBLY: tl.constexpr):
    """Products of the four codes of a word, each multiplied with the scale of its block, in two sums: no dot waits for
    the one before it."""
    first_code, second_code, third_code, fourth_code = e2m1(code, ASSEMBLY)
    even_sums = tl.dot(first_code * factor, first, even_sums, input_precision="ieee")
    odd_sums = tl.dot(second_code * factor, second, odd_sums, input_precision="ieee")
    even_sums = tl.dot(third_code * factor, third, even_sums, input_precision="ieee")
    return even_sums, tl.dot(fourth_code * factor, fourth, odd_sums, input_precision="ieee")


@triton.jit
def exchanged(word):
    """The place of a word among the words of a row, some of which are exchanged; the same the other way round."""
    return word & ~18 | (word & 16) >> 3 | (word & 2) << 3


@triton.jit
def by_place(value, WORDS: tl.constexpr, HELD: tl.constexpr, ROWS: tl.constexpr, EXCHANGED: tl.constexpr):
    """[4 · WORDS, HELD], inputs as they follow each other -> those of the first codes of all words, [WORDS, ROWS], to
    those of the fourth. HELD is ROWS, or one row that is every row. EXCHANGED: words of 128 inputs are."""
    if EXCHANGED:
        axes = tl.reshape(value, (WORDS // 32, 2, 4, 2, 2, 2, 2, HELD))  # h, t, two of places, c, e
        axes = tl.permute(axes, (0, 5, 2, 1, 6, 7, 4, 3))
    else:
        axes = tl.permute(tl.reshape(value, (WORDS // 4, 2, 2, 4, HELD)), (0, 3, 4, 2, 1))
    early, late = tl.split(axes)
    first, second = tl.split(early)
    third, fourth = tl.split(late)
    return (
        tl.broadcast_to(tl.reshape(first, (WORDS, HELD)), (WORDS, ROWS)),
        tl.broadcast_to(tl.reshape(second, (WORDS, HELD)), (WORDS, ROWS)),
        tl.broadcast_to(tl.reshape(third, (WORDS, HELD)), (WORDS, ROWS)),
        tl.broadcast_to(tl.reshape(fourth, (WORDS, HELD)), (WORDS, ROWS)),
    )


@triton.jit
def word_factors(block_scale, OUTPUTS: tl.constexpr, WORDS: tl.constexpr, LIKE: tl.constexpr, EXCHANGED: tl.constexpr):
    """block_scale [OUTPUTS, WORDS / 4] -> [OUTPUTS, WORDS] in LIKE, the dtype of x: scale · BLOCK_SHIFT for each word
    of codes, exact in bfloat16."""
    scale = block_scale.to(tl.float32).to(LIKE) * tl.full((1, 1), BLOCK_SHIFT, LIKE)
    if EXCHANGED:
        scale = tl.permute(tl.reshape(scale, (OUTPUTS, WORDS // 32, 2, 4)), (0, 1, 3, 2))
        scale = tl.reshape(scale, (OUTPUTS, WORDS // 32, 1, 4, 2, 1))
        scale = tl.broadcast_to(scale, (OUTPUTS, WORDS // 32, 2, 4, 2, 2))
    else:
        scale = tl.broadcast_to(scale[:, :, None], (OUTPUTS, WORDS // 4, 4))
    return tl.reshape(scale, (OUTPUTS, WORDS))
