"""Columns judged one by one, and rows settled by what was judged."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.groups import best_token, best_tokens, drafted_before
from ninfer_core.ops.kernels.keys import NOTHING, id_of
from ninfer_core.ops.kernels.law import pick, settings_of, uniform_of, weights_of
from ninfer_core.ops.sample import Purpose

TOKEN: tl.constexpr = tl.constexpr(int(Purpose.TOKEN))
ACCEPT: tl.constexpr = tl.constexpr(int(Purpose.ACCEPT))
RESIDUAL: tl.constexpr = tl.constexpr(int(Purpose.RESIDUAL))


@triton.jit
def _sane(probabilities):
    """float64, zero for what is no probability."""
    return tl.where((probabilities > 0.0) & (probabilities < float("inf")), probabilities, 0.0).to(tl.float64)


@triton.jit
def _tested(weights, ids, draft, law_ids, chances, seed, position, RANKS: tl.constexpr):
    """Whether a draft is kept by its law, 0 or 1, and the token in its place."""
    whole = tl.sum(weights, axis=0)
    weight = tl.sum(tl.where(ids == draft, weights, 0.0), axis=0)
    chance = tl.sum(tl.where(law_ids == draft, chances, 0.0), axis=0)
    kept = (chance > 0.0) & (uniform_of(seed, position, ACCEPT) * chance * whole < weight)
    taken = tl.sum(tl.where(ids[:, None] == law_ids[None, :], chances[None, :], 0.0), axis=1)
    rest = tl.maximum(weights - taken * whole, 0.0)
    rest = tl.where(tl.sum(rest, axis=0) > 0.0, rest, weights)
    return kept.to(tl.int64), pick(rest, ids, uniform_of(seed, position, RESIDUAL), RANKS)


@triton.jit(do_not_specialize=["columns", "width"])
def judge(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    positions,
    numbers,
    top_k,
    seeds,
    drafts,  # [rows, columns - 1]
    draft_counts,  # [rows]
    law_ids,  # [rows, columns - 1, width] or None
    probabilities,
    maxima,  # [rows * columns, numbers of a row]
    judged,  # [3, rows * columns]: the token, the token in place of the draft, whether the draft is kept
    columns,
    token_domain,
    blocks,
    width,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    ALL_BLOCKS: tl.constexpr,
    RANKS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """One column of a row. WIDTH is a power of two that holds a law."""
    row = tl.program_id(0).to(tl.int64)
    column = row % columns
    slot = tl.load(slots + row // columns)
    temperature, top_p, min_p, presence, frequency, counted = settings_of(numbers, slot, token_domain)
    before, drafted = drafted_before(drafts, draft_counts, row, columns)
    tested = column < tl.load(draft_counts + row // columns)
    draft = tl.load(before + column, mask=tested, other=-1)
    of_row = maxima + row * blocks * (BLOCK + 1)
    if temperature > 0:
        best = best_tokens(
            logits + row * logits_stride,
            counts + slot * counts_stride,
            presence,
            frequency,
            counted,
            before,
            drafted,
            of_row,
            tl.load(top_k + slot).to(tl.int32),
            token_domain,
            blocks,
            GROUP,
            BLOCK,
            ALL_BLOCKS,
            RANKS,
        )
        weights = weights_of(best, temperature, top_p, min_p, RANKS)
        ids = tl.where(best != NOTHING, id_of(best), -1)
        seed, position = tl.load(seeds + slot), tl.load(positions + row)
        token = pick(weights, ids, uniform_of(seed, position, TOKEN), RANKS).to(tl.int64)
        kept = (token == draft).to(tl.int64)
        instead = token
        if law_ids is not None:  # noqa: SIM102 - settled when the kernel is compiled, unlike the other
            if tested:
                entry = tl.arange(0, WIDTH)
                place = ((row // columns) * (columns - 1) + column) * width + entry
                of_law = tl.load(law_ids + place, mask=entry < width, other=-2)
                chances = _sane(tl.load(probabilities + place, mask=entry < width, other=0.0))
                kept, other = _tested(weights, ids, draft, of_law, chances, seed, position, RANKS)
                instead = other.to(tl.int64)
    else:
        token = best_token(of_row, blocks, ALL_BLOCKS).to(tl.int64)
        kept = (token == draft).to(tl.int64)
        instead = token
    total = tl.num_programs(0)
    tl.store(judged + row, token)
    tl.store(judged + total + row, instead)
    tl.store(judged + 2 * total + row, kept)


@triton.jit(do_not_specialize=["columns"])
def settle(
    drafts,
    draft_counts,
    slots,
    judged,
    packed,  # [rows, 2 + columns]: offered, drafted, tokens
    candidates,
    offered,
    candidates_stride,
    columns,
    MOST_COLUMNS: tl.constexpr,
):
    """One row, when all of its columns are judged."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.num_programs(0) * columns
    slot = tl.load(slots + row)
    last = tl.load(draft_counts + row)
    column = tl.arange(0, MOST_COLUMNS)
    inside = column < columns
    place = judged + row * columns + column
    kept = tl.load(place + 2 * total, mask=column < last, other=0)
    accepted = tl.min(tl.where(kept != 0, MOST_COLUMNS, column), axis=0).to(tl.int64)
    draft = tl.load(drafts + row * (columns - 1) + column, mask=column < accepted, other=0)
    token = tl.load(place, mask=inside, other=0)
    instead = tl.load(place + total, mask=inside, other=0)
    token = tl.where(column < accepted, draft, tl.where(accepted < last, instead, token))
    out = packed + row * (columns + 2)
    tl.store(out, accepted + 1)
    tl.store(offered + slot, accepted + 1)
    tl.store(out + 1, last)
    tl.store(out + 2 + column, token, mask=inside)
    tl.store(candidates + slot * candidates_stride + column, token, mask=inside)
