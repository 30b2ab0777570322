"""Attention of a block's columns over a ring of context and over the block itself (docs/speculation.md,
"Block drafters").

A row's context is the positions [0, L); of it a ring keeps the last R = ring tokens, position p at index p mod R. The
block's columns have the positions L + i, and their keys and values are not kept.

    store:   ring[layer, slot, head, p mod R] = (key, value) of column i at p = first + i,
             for columns i with counts − R <= i < counts and p >= 0
    attend:  y[i, h] = softmax( scale · q[i, h] · k ) · v   over the keys and values of head h // group that column i
             sees: the context at p with p >= 0, p >= L − R and, where there is a window, L + i − p < window; and the
             block's column j, where j <= i or the block is not causal;   group = query_heads / kv_heads
    queries and keys are normed (`ops.rms_norm`) and rotated (`ops.partial_rope`) before, rounded after each

    BlockShape   query_heads, kv_heads, head_dim; window, of more tokens than a block has columns, or None; causal
    Ring         keys, values [layers, slots, kv_heads, ring, head_dim] activation dtype: layers of a state array
    stored       [rows, columns, layers, 2, kv_heads, head_dim]    activation dtype: keys, then values, not normed
    key_norms    [layers, head_dim] any float dtype, stored around zero
    projected    [rows, columns, (query_heads + 2 kv_heads) head_dim]   activation dtype: the queries of all heads,
                 then keys, then values, not normed
    norms        `ninfer_core.api.HeadNorms`; rotation `ninfer_core.api.Rotation` of the columns, pairs <= head_dim / 2
    slots        [rows] int64, all different
    first        [rows] int64: the position of the first column
    counts       [rows] int64, 0..columns
    lengths      [rows] int64: L
    y            [rows, columns, query_heads * head_dim]           activation dtype; scores, softmax and sums in float32

`store` writes those ring entries and nothing else, `attend` nothing. A row's numbers do not depend on its batch mates.
What was never stored may be anything, not-a-number included. `select` gives a `BlockAttention`.
"""

from __future__ import annotations

from ninfer_core.ops.block_attention.reference import ReferenceBlockAttention
from ninfer_core.ops.block_attention.select import select
from ninfer_core.ops.block_attention.shape import BlockAttention, BlockShape, Ring

__all__ = ["BlockAttention", "BlockShape", "ReferenceBlockAttention", "Ring", "select"]
