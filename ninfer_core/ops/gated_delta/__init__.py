"""The gated delta rule: a matrix of memory per value head, decayed, corrected and read at every column.

For value head j with key head j // (value_heads / key_heads), all in float32:

    q, k  = q / sqrt(Σ q² + 1e-6) · key_dim^(−1/2),  k / sqrt(Σ k² + 1e-6)
    beta  = sigmoid(b)
    g     = −exp(a_log) · softplus(a + dt_bias)
    S     ← e^g · S
    u     = beta · (v − Sᵀ k)
    S     ← S + k uᵀ
    out   = Sᵀ q

    columns   `DeltaColumns`: query, key [rows, columns, key_heads, key_dim]; value [rows, columns, value_heads,
              value_dim]; a, b [rows, columns, value_heads]; a_log, dt_bias [value_heads]; any float dtypes
    state     [slots, value_heads, key_dim, value_dim]    float32, committed
    records   `DeltaRecords`, float32, rings of twice the columns of a round: normalised key [slots, ring, key_heads,
              key_dim], update (u) [slots, ring, value_heads, value_dim], decay (g) [slots, ring, value_heads]; the
              column at position p is at p mod ring
    slots     [rows]   int64, no two equal
    lengths   [rows]   int64, the position of the first new column
    accepted  [rows]   int64, how many recorded columns are still to be committed, at most those of a round: they are
              at positions [lengths − accepted, lengths)
    out       [rows, columns, value_heads, value_dim]     float32: it can leave the range of a half

`prefill` commits all its columns; it may be split at any column (Yang et al., "Gated Delta Networks", 2024: the chunked
form). `decode` first folds, then runs its columns without committing them and leaves their records. `fold` commits
exactly `accepted` recorded columns by S ← e^g S + k uᵀ, with the very operations `decode` used, so that the result is
the state `decode` saw, bit for bit; where `accepted` is 0 the state is untouched. Its `state` and `records` carry a
leading axis of layers. Slots that are not named are not touched. A new sequence starts from a slot of zeros.

The reference of a part of `ops.delta_mixer`, which has the kernels.
"""

from __future__ import annotations

from ninfer_core.ops.gated_delta.chunked import prefill
from ninfer_core.ops.gated_delta.recurrent import decode, fold
from ninfer_core.ops.gated_delta.values import DeltaColumns, DeltaRecords

__all__ = ["DeltaColumns", "DeltaRecords", "decode", "fold", "prefill"]
