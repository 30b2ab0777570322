"""Linear map without bias: y = x Wᵀ.

    x       [..., inputs]          activation dtype
    weight  [outputs, inputs]      activation dtype
    y       [..., outputs]         activation dtype, accumulated in float32 or better

`row_class` is the padding-class rule of batch invariance. Matrix libraries choose a kernel by the number of rows,
and kernels differ in the order they add in. With `row_class` R the product is always taken over at least R rows,
missing ones filled with zeros, so that one row's numbers depend neither on how many others there are (up to R) nor on
where it stands. Decode passes `DECODE_ROWS` times its columns; prefill, which has one request to itself, passes 0.

Nothing is aliased and nothing else is written.
"""

from __future__ import annotations

from ninfer_core.ops.linear.reference import linear
from ninfer_core.ops.workspace.linear import DECODE_ROWS

__all__ = ["DECODE_ROWS", "linear"]
