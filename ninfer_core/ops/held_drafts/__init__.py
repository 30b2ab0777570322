"""What a drafter gave back, held to what can be looked at: a draft that is no token ends those of its row, and no count
is out of range.

For every row, with drafts d_1 .. d_K, of which the first F are tokens, 0 <= d < token_domain:

    counts  = F                     certain drafts
            = min(F + 1, K)         drawn drafts: the first that is no token is looked at too, as below
              and no more than what the drafter means, and no fewer than none
    held_i  = d_i                   where that is a token
            = 0                     where it is none: certain drafts
            = the lowest of 0 .. n  that is not among the n tokens of its law: drawn drafts
    columns = (anchor, held_1, .., held_K)

A drawn draft that is no token so takes the form of one that its law does not have: `ops.accept` rejects it, and the
token in its place is one of max(p − q, 0), which keeps the target's law (docs/speculation.md).

    token_ids  [rows, K]             int64, any numbers
    meant      [rows]                int64, any numbers: how many drafts the drafter means; None for all of them
    law_ids    [rows, K, n]          int64, of a position all different; None where drafts are certain. n < token_domain
    anchors    [rows, 1]             int64
    HeldDrafts token_ids int64 [rows, K] are held; counts int64 [rows]; columns int64 [rows, 1 + K]

Nothing else is written; a row does not depend on the others. The routes of `select` give the same numbers.
"""

from __future__ import annotations

from ninfer_core.ops.held_drafts.reference import HeldDrafts, hold_drafts
from ninfer_core.ops.held_drafts.select import HoldDrafts, select

__all__ = ["HeldDrafts", "HoldDrafts", "hold_drafts", "select"]
