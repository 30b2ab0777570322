"""One token of one row, through the best keys of its groups of tokens."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.groups import best_token, best_tokens
from ninfer_core.ops.kernels.keys import id_of
from ninfer_core.ops.kernels.law import pick, settings_of, uniform_of, weights_of


@triton.jit(do_not_specialize=["columns"])
def draw(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    positions,
    numbers,
    top_k,
    seeds,
    maxima,
    tokens,
    candidates,
    candidates_stride,
    columns,
    token_domain,
    blocks,
    purpose,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    ALL_BLOCKS: tl.constexpr,
    RANKS: tl.constexpr,
):
    """tokens[row] = candidates[slot, column] = the token of one row."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row // columns)
    temperature, top_p, min_p, presence, frequency, counted = settings_of(numbers, slot, token_domain)
    of_row = maxima + row * blocks * (BLOCK + 1)
    if temperature > 0:
        best = best_tokens(
            logits + row * logits_stride,
            counts + slot * counts_stride,
            presence,
            frequency,
            counted,
            None,
            0,
            of_row,
            tl.load(top_k + slot).to(tl.int32),
            token_domain,
            blocks,
            GROUP,
            BLOCK,
            ALL_BLOCKS,
            RANKS,
        )
        random = uniform_of(tl.load(seeds + slot), tl.load(positions + row), purpose)
        token = pick(weights_of(best, temperature, top_p, min_p, RANKS), id_of(best), random, RANKS)
    else:
        token = best_token(of_row, blocks, ALL_BLOCKS)
    token = token.to(tl.int64)
    tl.store(tokens + row, token)
    tl.store(candidates + slot * candidates_stride + row % columns, token)
