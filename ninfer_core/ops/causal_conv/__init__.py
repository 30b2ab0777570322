"""Causal depthwise convolution over time followed by SiLU, with the columns it needs kept per slot in a ring.

    y[t, c] = silu( Σ_j weight[c, j] · x[t − width + 1 + j, c] ),   j in [0, width): the last tap is the column itself

    x        [rows, columns, channels]              activation dtype: columns before the convolution
    weight   [channels, width]                      any float dtype
    ring     [slots, ring columns, channels]        activation dtype: the column at position p is at p mod ring columns
    slots    [rows]                                 int64, no two equal
    lengths  [rows]                                 int64, position of the first column of x
    y        [rows, columns, channels]              activation dtype; float32 inside, one rounding at the end

The columns at positions [lengths − width + 1, lengths) are read from the ring; where a position is below zero, zeros
are. `decode` leaves all its columns in the ring, so that the next round may begin behind any of them: the ring has at
least width − 1 + columns places. `prefill` leaves the last width − 1, or all when there are fewer. Nothing else in the
ring changes, and slots that are not named are not touched. There is nothing to fold: what a column's position is
settles whether it is looked at.

The reference of a part of `ops.delta_mixer`, which has the kernels.
"""

from __future__ import annotations

from ninfer_core.ops.causal_conv.reference import decode, prefill

__all__ = ["decode", "prefill"]
