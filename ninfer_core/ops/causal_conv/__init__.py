"""Causal depthwise convolution over time followed by SiLU, with the columns it needs kept per slot.

    y[t, c] = silu( Σ_j weight[c, j] · x[t − width + 1 + j, c] ),   j in [0, width): the last tap is the column itself

    x        [rows, columns, channels]              activation dtype: columns before the convolution
    weight   [channels, width]                      any float dtype
    state    [slots, width − 1, channels]           activation dtype: committed columns before x, oldest first
    records  [slots, columns, channels]             activation dtype: columns of the slot's last decode round
    slots    [rows]                                 int64, no two equal
    accepted [rows]                                 int64, how many recorded columns are still to be committed
    y        [rows, columns, channels]              activation dtype; float32 inside, one rounding at the end

`prefill` commits all its columns to `state`. `decode` first folds, then runs its columns without committing them and
leaves them in `records`. `fold` commits exactly `accepted` recorded columns: what was committed before stays bit for
bit where `accepted` is 0; its `state` and `records` carry a leading axis of layers. Slots that are not named are not
touched. A new sequence starts from a slot of zeros.
"""

from __future__ import annotations

from ninfer_core.ops.causal_conv.reference import decode, fold, prefill

__all__ = ["decode", "fold", "prefill"]
