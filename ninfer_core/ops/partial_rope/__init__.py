"""Rotary positions on the first part of every head, with the interleaved three-axis layout (mrope).

    angle[j]   = position[axis[j]] · inverse_frequency[j]                        j in [0, pairs)
    cos, sin   = cos(angle) · attention_factor, sin(angle) · attention_factor
    y[j]         = x[j]·cos[j] − x[j + pairs]·sin[j]
    y[j + pairs] = x[j + pairs]·cos[j] + x[j]·sin[j]
    y[i]         = x[i]                                                          i >= 2·pairs

    positions          [3, rows, columns]              int64: time, height, width; all equal for text
    inverse_frequency  [pairs]                         float32
    axis               [pairs]                         int64 in {0, 1, 2}
    cos, sin           [rows, columns, pairs]          float32
    x, y               [rows, columns, heads, head_dim]  activation dtype; the rotation is done in float32

`rope_angles` is called once for a unit of work; `select` says what computes the angles on a device. `partial_rope` is
the reference of a part of `ops.paged_attention`, which has the kernels. Nothing is aliased and nothing else is written.
"""

from __future__ import annotations

from ninfer_core.ops.partial_rope.reference import partial_rope, rope_angles
from ninfer_core.ops.partial_rope.select import RopeAngles, select

__all__ = ["RopeAngles", "partial_rope", "rope_angles", "select"]
