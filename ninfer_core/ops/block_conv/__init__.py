"""Convolution over the columns of a block with coefficients that depend on the column (DFlash2; docs/speculation.md,
"Convolutions").

    y[i, c] = Σ_t ( base[t, c] + delta[i, t, c // group] ) · x[i − t, c]        over taps t with i − t >= 0
    y       = residual + y                                                      where there is a residual

    x         [rows, columns, width]            activation dtype; a row is one block, and no block sees another
    base      [taps, width]                     any float dtype
    delta     [rows, columns, taps, groups]     activation dtype; group = width / groups, whole. Rows and columns may
                                                have any strides, taps and groups lie together
    residual  [rows, columns, width]            dtype of x
    y         [rows, columns, width]            dtype of x; all arithmetic in float32, one rounding at the end

Nothing is aliased and nothing else is written. `select` says what to call on a device.
"""

from __future__ import annotations

from ninfer_core.ops.block_conv.reference import block_conv
from ninfer_core.ops.block_conv.select import BlockConv, select

__all__ = ["BlockConv", "block_conv", "select"]
