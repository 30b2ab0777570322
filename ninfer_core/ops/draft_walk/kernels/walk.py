"""From logits to drafts: the best keys, the candidates of a position, all scores between candidates of neighbours, and
the walk through them, which alone is one step after the other."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.groups import best_tokens, store_maxima
from ninfer_core.ops.kernels.keys import id_of, keys_of, logits_at, value_of
from ninfer_core.ops.kernels.law import pick, uniform_of
from ninfer_core.ops.sample import Purpose

DRAFT: tl.constexpr = tl.constexpr(int(Purpose.DRAFT))


@triton.jit
def logit_maxima(logits, logits_stride, maxima, proposed, blocks, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """The maxima of one block of the logits of one draft."""
    row = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    ids = (block * BLOCK + tl.arange(0, BLOCK))[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    value = logits_at(logits + row * logits_stride, ids, ids < proposed)
    keys = keys_of(value, None, ids, ids < proposed, 0.0, 0.0, 0, None, 0)
    store_maxima(keys, maxima + row * blocks * (BLOCK + 1), block, blocks, BLOCK)


@triton.jit
def candidates(
    logits,
    logits_stride,
    proposed_ids,  # [proposed] or None
    maxima,
    law_ids,  # [rows * drafts, RANKS]: written
    unary,  # [rows * drafts, RANKS] float32: written
    proposed,
    blocks,
    multiplier,
    softcap,  # or None
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    ALL_BLOCKS: tl.constexpr,
    RANKS: tl.constexpr,
):
    """The best RANKS tokens of one draft, and their logits as scores have them."""
    row = tl.program_id(0).to(tl.int64)
    best = best_tokens(
        logits + row * logits_stride,
        None,
        0.0,
        0.0,
        0,
        None,
        0,
        maxima + row * blocks * (BLOCK + 1),
        RANKS,
        proposed,
        blocks,
        GROUP,
        BLOCK,
        ALL_BLOCKS,
        RANKS,
    )
    ids = id_of(best).to(tl.int64)
    if proposed_ids is not None:
        ids = tl.load(proposed_ids + ids)
    score = value_of(best) * multiplier
    if softcap is not None:
        score = (2.0 / (1.0 + tl.exp(-2.0 * (score / softcap))) - 1.0) * softcap  # tanh
    rank = tl.arange(0, RANKS)
    tl.store(law_ids + row * RANKS + rank, ids)
    tl.store(unary + row * RANKS + rank, score)


@triton.jit(do_not_specialize=["drafts"])
def score_edges(
    law_ids,
    unary,
    anchors,
    states,  # [rows * drafts, RANK]
    predecessor,  # [vocabulary_rows, RANK]
    successor,
    scores,  # [rows * drafts, RANKS, RANKS] float32: by the candidate before, by the candidate; written
    drafts,
    RANK: tl.constexpr,
    RANKS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """All scores of one draft. The candidates before the first are RANKS times the anchor."""
    row = tl.program_id(0).to(tl.int64)
    draft = row % drafts
    rank = tl.arange(0, RANKS)
    anchor = tl.load(anchors + row // drafts)
    before = tl.load(law_ids + tl.maximum(row - 1, 0) * RANKS + rank)  # for the first draft, somebody else's
    before = tl.where(draft > 0, before, anchor)
    ids = tl.load(law_ids + row * RANKS + rank)
    total = tl.zeros([RANKS, RANKS], tl.float32)
    for start in range(0, RANK, CHUNK):
        element = start + tl.arange(0, CHUNK)
        state = tl.load(states + row * RANK + element).to(tl.float32)
        earlier = tl.load(predecessor + before[:, None] * RANK + element[None, :]).to(tl.float32) * state[None, :]
        later = tl.load(successor + ids[:, None] * RANK + element[None, :]).to(tl.float32)
        total += tl.sum(earlier[:, None, :] * later[None, :, :], axis=2)
    score = tl.load(unary + row * RANKS + rank)[None, :] + total
    tl.store(scores + (row * RANKS + rank[:, None]) * RANKS + rank[None, :], score)


@triton.jit(do_not_specialize=["drafts"])
def walk(
    scores,
    law_ids,
    positions,  # [rows, drafts]
    temperatures,
    seeds,
    token_ids,  # [rows, drafts]: written
    probabilities,  # [rows, drafts, RANKS] float32: written
    drafts,
    RANKS: tl.constexpr,
):
    """One row, draft by draft."""
    row = tl.program_id(0).to(tl.int64)
    rank = tl.arange(0, RANKS)
    temperature = tl.load(temperatures + row)
    seed = tl.load(seeds + row)
    heat = tl.where(temperature > 0, temperature, 1.0).to(tl.float64)
    chosen = tl.full([], 0, tl.int32)
    for draft in range(drafts):
        place = row * drafts + draft
        score = tl.load(scores + (place * RANKS + chosen) * RANKS + rank)
        highest = tl.max(score, axis=0)
        weights = tl.exp((score.to(tl.float64) - highest.to(tl.float64)) / heat)
        drawn = pick(weights, rank, uniform_of(seed, tl.load(positions + place), DRAFT), RANKS)
        best = tl.minimum(tl.min(tl.where(score == highest, rank, RANKS), axis=0), RANKS - 1)
        chosen = tl.where(temperature > 0, drawn, best)
        certain = tl.where(rank == chosen, 1.0, 0.0)
        law = tl.where(temperature > 0, (weights / tl.sum(weights, axis=0)).to(tl.float32), certain)
        tl.store(probabilities + place * RANKS + rank, law)
        tl.store(token_ids + place, tl.load(law_ids + place * RANKS + chosen))
