"""Gated DeltaNet between its two projections: convolution, gated delta rule, gated norm, as one operation.

    x          = silu(conv(qkv))                            `ops.causal_conv`, rounded to the activation dtype
    q, k, v    = x, cut by heads: key_heads · key_dim, the same, value_heads · value_dim
    out        = delta rule(q, k, v, a, b)                  `ops.gated_delta`, float32
    y          = rms_norm(out) · w · activation(gate)       `ops.gated_rms_norm` of every value head, rounded once

    columns    `MixerColumns`, at least one: qkv [rows, columns, channels], gate [rows, columns, value_heads ·
               value_dim], a, b [rows, columns, value_heads]; activation dtype; views of one projection are fine, the
               last axis dense
    weights    `MixerWeights`, float32
    state      `MixerState` of all layers: the memory, and the rings of columns before the convolution, keys, updates
               and decays, as `ops.causal_conv` and `ops.gated_delta` describe them
    layer      which of them this is
    slots, lengths, accepted [rows]    int64: slots all different; the position of the first new column; how many
               columns of the last round are still to be folded, those at [lengths − accepted, lengths)
    y          [rows, columns, value_heads · value_dim]    activation dtype, dense

`decode` folds what was accepted into the memory, with the very operations that the round itself used, so that the
memory is bit for bit what the round saw; then it runs its columns, leaving them in the rings and the memory as folded.
`fold` does the first of the two, for all layers at once. `prefill` commits all its columns, leaves the last width − 1
of them in the ring of columns, and looks at no other ring. It may be split at any column. A new sequence starts from
memory of zeros and length 0; its rings may hold anything. Slots that are not named are not touched.

`select` gives the route of a device, a `DeltaMixer`. Each is within the named tolerances of the float64 oracle; what a
row gets never depends on the other rows of its batch.
"""

from __future__ import annotations

from ninfer_core.ops.delta_mixer.reference import ReferenceMixer
from ninfer_core.ops.delta_mixer.select import DeltaMixer, select
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights

__all__ = ["DeltaMixer", "MixerColumns", "MixerState", "MixerWeights", "ReferenceMixer", "select"]
