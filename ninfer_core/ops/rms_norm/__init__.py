"""Zero-centred root-mean-square norm over the last axis.

    y = cast( x / sqrt(mean(x²) + epsilon) · (1 + w) )

    x       [..., width]    activation dtype
    weight  [width]         any float dtype, stored around zero
    y       [..., width]    dtype of x; all arithmetic in float32, one rounding at the end

Nothing is aliased and nothing else is written. `select` says what to call on a device.
"""

from __future__ import annotations

from ninfer_core.ops.rms_norm.reference import rms_norm
from ninfer_core.ops.rms_norm.select import RmsNorm, select

__all__ = ["RmsNorm", "rms_norm", "select"]
