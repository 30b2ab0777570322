"""The best tokens of a row through the best keys of groups of tokens, of three sizes: logits are read once, and then
fewer and fewer of them again.

A block is what one program of the first launch looks at: BLOCK groups of GROUP consecutive tokens. `maxima` of a row
has the best key of every block, then of every group: `blocks` and BLOCK · `blocks` numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.keys import NOTHING, best_of, id_of, keys_of, logits_at
from ninfer_core.ops.kernels.law import settings_of

SMALL: tl.constexpr = tl.constexpr(16)
"""Tokens of the parts that groups are looked at in, where they are longer."""
SMALLEST: tl.constexpr = tl.constexpr(2)
"""Tokens of the parts of those."""


@triton.jit
def drafted_before(drafts, draft_counts, row, columns):
    """The drafts of the row that `row` is a column of, and how many of them are in front of it."""
    most = columns - 1
    meant = tl.load(draft_counts + row // columns).to(tl.int32)
    return drafts + (row // columns) * most, tl.minimum(meant, (row % columns).to(tl.int32))


@triton.jit
def store_maxima(keys, maxima, block, blocks, BLOCK: tl.constexpr):
    """keys [BLOCK, GROUP] of one block of a row, whose maxima begin at `maxima`."""
    best = tl.max(keys, axis=1)
    tl.store(maxima + block, tl.max(best, axis=0))
    tl.store(maxima + blocks + block * BLOCK + tl.arange(0, BLOCK), best)


@triton.jit(do_not_specialize=["columns"])
def row_maxima(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    numbers,
    drafts,  # [rows, columns - 1] or None
    draft_counts,  # [rows] or None
    maxima,
    columns,
    token_domain,
    blocks,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The maxima of one block of one row."""
    row = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    ids = (block * BLOCK + tl.arange(0, BLOCK))[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = ids < token_domain
    value = logits_at(logits + row * logits_stride, ids, inside)  # under way while settings are read
    slot = tl.load(slots + row // columns)
    _, _, _, presence, frequency, counted = settings_of(numbers, slot, token_domain)
    before, drafted = drafts, 0
    if drafts is not None:
        before, drafted = drafted_before(drafts, draft_counts, row, columns)
    of_slot = counts + slot * counts_stride
    keys = keys_of(value, of_slot, ids, inside, presence, frequency, counted, before, drafted)
    store_maxima(keys, maxima + row * blocks * (BLOCK + 1), block, blocks, BLOCK)


@triton.jit
def _refined(
    best,
    logits,
    counts,
    presence,
    frequency,
    counted,
    drafts,
    drafted,
    wanted,
    token_domain,
    WHOLE: tl.constexpr,
    PART: tl.constexpr,
    RANKS: tl.constexpr,
):
    """From the best groups of WHOLE tokens to the best of PART tokens."""
    first = id_of(best) // WHOLE * WHOLE
    part = tl.arange(0, WHOLE // PART) * PART
    ids = first[:, None, None] + part[None, :, None] + tl.arange(0, PART)[None, None, :]
    present = (best != NOTHING)[:, None, None] & (ids < token_domain)
    value = logits_at(logits, ids, present)
    keys = keys_of(value, counts, ids, present, presence, frequency, counted, drafts, drafted)
    keys = tl.max(keys, axis=2)
    return best_of(tl.reshape(keys, [RANKS * (WHOLE // PART)]), wanted, RANKS)


@triton.jit
def best_tokens(
    logits,  # of the row, as are counts, drafts and maxima
    counts,
    presence,
    frequency,
    counted,
    drafts,
    drafted,
    maxima,
    wanted,
    token_domain,
    blocks,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    ALL_BLOCKS: tl.constexpr,
    RANKS: tl.constexpr,
):
    """The `wanted` best keys of a row, the greatest first: [RANKS]. ALL_BLOCKS and RANKS are powers of two that hold
    all blocks and all that may be wanted."""
    every = tl.arange(0, ALL_BLOCKS)
    best = best_of(tl.load(maxima + every, mask=every < blocks, other=NOTHING), wanted, RANKS)
    group = id_of(best)[:, None] // (GROUP * BLOCK) * BLOCK + tl.arange(0, BLOCK)[None, :]
    keys = tl.load(maxima + blocks + group, mask=(best != NOTHING)[:, None], other=NOTHING)
    best = best_of(tl.reshape(keys, [RANKS * BLOCK]), wanted, RANKS)
    if GROUP > SMALL:
        best = _refined(
            best,
            logits,
            counts,
            presence,
            frequency,
            counted,
            drafts,
            drafted,
            wanted,
            token_domain,
            GROUP,
            SMALL,
            RANKS,
        )
    rest = (logits, counts, presence, frequency, counted, drafts, drafted, wanted, token_domain)
    return _refined(_refined(best, *rest, SMALL, SMALLEST, RANKS), *rest, SMALLEST, 1, RANKS)


@triton.jit
def best_token(maxima, blocks, ALL_BLOCKS: tl.constexpr):
    """The id of the best key of a row."""
    every = tl.arange(0, ALL_BLOCKS)
    return id_of(tl.max(tl.load(maxima + every, mask=every < blocks, other=NOTHING), axis=0))
