"""Choice of the drafts of a block, one after the other, each by the one before it (DFlash2's candidate selector;
docs/speculation.md, "Selector").

For draft i of a row, from 0, with U = transform(logits):

    candidates_i  = the CHOICES largest logits of position i, equal ones in order of their index
    score_i(p, c) = U_i(c) + Σ_r predecessor[p, r] · states[i, r] · successor[c, r]
    d_i           = the candidate chosen by score_i(d_{i−1}, ·), with d_{−1} = the anchor:
        temperature <= 0: the largest, the first of equal ones
        otherwise:        drawn in proportion to exp(score / temperature) by
                          `ops.sample.uniform(seed, position, Purpose.DRAFT)`
    transform(x)  = x · multiplier, and then softcap · tanh(x / softcap) where there is a softcap

    logits         [rows, drafts, proposed]   float32 or bfloat16, proposed >= CHOICES
    proposed_ids   [proposed]                 int64, all different: the tokens that the logits are of; None for every
                                              token in order. Codebooks and drafts are by token
    states         [rows, drafts, rank]       activation dtype
    Codebooks      predecessor, successor [vocabulary_rows, rank], any float dtype, rank a power of two
    anchors        [rows]                     int64
    positions      [rows, drafts]             int64: index in the sequence of each draft
    temperature    [rows] float32; seeds [rows] int64 (`ninfer_core.api.DraftSampling`)
    Walk           token_ids int64 [rows, drafts]; law_ids int64 [rows, drafts, CHOICES]: the candidates;
                   probabilities float32 [rows, drafts, CHOICES]: the law that the draft was drawn from, all of it on
                   the draft in greedy rows

Products and scores in float32, the draw in float64. Logits that are not numbers give some candidates and a law of
not-a-numbers. Nothing is aliased and nothing else is written; a row does not depend on its batch mates.
"""

from __future__ import annotations

from ninfer_core.ops.draft_walk.reference import Codebooks, LogitTransform, Walk, draft_walk
from ninfer_core.ops.draft_walk.select import DraftWalk, select
from ninfer_core.ops.workspace.draft_walk import CHOICES

__all__ = ["CHOICES", "Codebooks", "DraftWalk", "LogitTransform", "Walk", "draft_walk", "select"]
