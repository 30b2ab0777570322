"""Causal grouped-query attention over a paged KV cache whose pages are encoded by a codec.

    append:  slot(t) = (block_table[row, t // page_tokens], t mod page_tokens),  t = lengths[row] + column
             planes[slot(t)] = codec.encode(T(key or value))
    attend:  y[column, h] = Σ_t softmax_t( scale · q[column, h] · k[t, h // group] ) · v[t, h // group]
             over t in [0, lengths[row] + column],  group = query_heads / kv_heads,
             with q transformed as keys were and y as values were: T is the transform that the codec's layout names
             for the part, the identity or the orthonormal Hadamard, which is its own inverse
    copy:    pages to other pages in all layers, byte for byte
    projected: queries and keys normed (`ops.rms_norm`) and rotated (`ops.partial_rope`), both rounded, append, attend,
             and y · sigmoid(gate); see `ninfer_core.api.AttentionCache.attend_projected`

    query        [rows, columns, query_heads, head_dim]   activation dtype
    key, value   [rows, columns, kv_heads, head_dim]      activation dtype
    planes       one tensor [pages, kv_heads, page_tokens, elements] for each plane of the codec's layout, in its
                 order (keys first): one layer's view of the pools
    block_table  [rows, blocks]  integer; the pages of a row in order. Entries past a row's last page are not used,
                 but must be page numbers
    lengths      [rows]          integer; tokens in the cache before this batch's columns
    y            [rows, columns, query_heads, head_dim]   activation dtype; scores, softmax and sums in float32

`append` writes the pages of the batch's columns and nothing else; rows must not share a page that is written.
`attend` writes nothing and expects `append` to have been done. `decode` and `prefill` are the same function of their
inputs with other costs: few columns in many rows, many columns in few rows.

`context_tokens` is known to the host and bounds lengths[row] + columns over all rows: reading past it is never needed.
It may be larger than that (a captured graph passes the largest context) and no number depends on it: the context is
walked in splits of fixed size, and a split that a column does not see leaves its sums as they are, bit for bit. So a
row's numbers do not depend on its batch mates. A page that was never written may hold anything, not-a-number included.
"""

from __future__ import annotations

from ninfer_core.ops.paged_attention.reference import append, decode, prefill
from ninfer_core.ops.paged_attention.route import AttentionRoute, AttentionRoutes, AttentionShape, PagedRows
from ninfer_core.ops.paged_attention.select import select

__all__ = [
    "AttentionRoute",
    "AttentionRoutes",
    "AttentionShape",
    "PagedRows",
    "append",
    "decode",
    "prefill",
    "select",
]
