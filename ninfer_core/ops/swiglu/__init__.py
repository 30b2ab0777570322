"""Gated activation of a feed-forward layer whose gate and up matrices are stacked, gate rows first.

    y = cast( silu(gate) · up ),   x = gate ‖ up

    x  [..., 2·width]    activation dtype
    y  [..., width]      activation dtype; float32 inside, one rounding at the end

Nothing is aliased and nothing else is written. The kernel beside it is part of `ops.linear`.
"""

from __future__ import annotations

from ninfer_core.ops.swiglu.reference import swiglu

__all__ = ["swiglu"]
