"""The likeliest token of every column, where drafts are certain.

    likeliest[row, column] = token_ids[i], or i where no ids are given,
                             of the largest logits[row, column, i], the lowest i of equal ones

    logits      [rows, columns, proposed]   float32 or bfloat16, the logits of a column without a gap
    token_ids   [proposed]                  int64: the tokens that the logits are of; None for every token in order
    likeliest   [rows, columns]             int64

Logits that are not numbers give some token of those proposed. Nothing else is written; a column does not depend on the
others. The routes of `select` give the same tokens for the same logits.
"""

from __future__ import annotations

from ninfer_core.ops.likeliest.reference import likeliest
from ninfer_core.ops.likeliest.select import Likeliest, select

__all__ = ["Likeliest", "likeliest", "select"]
