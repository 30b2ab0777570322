"""Which drafts of a round are kept, and the token behind them, so that tokens have the law of the target alone
(docs/speculation.md, "Acceptance").

A row has K drafts d_1 .. d_K, of which the first `counts` are meant, and logits of W = K + 1 columns. Column i, from 0,
is for the token behind d_1 .. d_i: p_i is the law of `ops.sample` with its logits, its settings, and the row's counters
to which d_1 .. d_i have been added. t_i is the token that `ops.sample` chooses by it, with the position of column i and
`Purpose.TOKEN`.

    certain drafts   (no law is given, or the row is greedy): the first A drafts are kept, the longest run with
                     d_{i+1} = t_i; then comes t_A. The text is the one without drafts, token for token
    drawn drafts     (q_i is the law that d_{i+1} was drawn from): d_{i+1} is kept where 0 < q_i(d_{i+1}) and
                         uniform(ACCEPT) · q_i(d_{i+1}) < p_i(d_{i+1})
                     and the first A are. Behind them comes a token of max(p_A − q_A, 0), by uniform(RESIDUAL), or of
                     p_A where that is nothing; t_A where all drafts that are meant were kept

    logits         [rows · W, vocabulary_rows]   float32 or bfloat16, the columns of a row behind each other
    Drafts         token_ids int64 [rows, K], all of them in [0, token_domain), those that are not meant too;
                   counts int64 [rows], 0..K; law_ids int64 [rows, K, n], all of a position different, and
                   probabilities float32 [rows, K, n], both or neither; what is NaN, negative or infinite counts as 0
    rows           `ops.sample.ChosenRows` of W columns: their settings, counters, slots and positions
    candidates     [slots, W]                    int64, written: the tokens of the row's slot
    offered        [slots]                       int64, written: how many of these count, A + 1
    Accepted       offered int64 [rows]: A + 1, the tokens of the row that count; drafted int64 [rows]: `counts`; tokens
                   int64 [rows, W], those behind the offered ones any tokens of the domain

A law that is not the one that drafts were drawn from gives other tokens than the target's, but never one that p_A does
not have; one that is nothing but zeros gives the target's. `candidates` and `offered` are all that is written. A row
does not depend on its batch mates. `select` gives an `Acceptor`; its routes offer the same tokens for the same inputs.
"""

from __future__ import annotations

from ninfer_core.ops.accept.reference import Accepted, Drafts, accept
from ninfer_core.ops.accept.select import Acceptor, ReferenceAcceptor, select

__all__ = ["Accepted", "Acceptor", "Drafts", "ReferenceAcceptor", "accept", "select"]
