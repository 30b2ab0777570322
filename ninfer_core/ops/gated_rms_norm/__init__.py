"""Root-mean-square norm with a plain weight, followed by a gate: the output norm of Gated DeltaNet.

    y = cast( x / sqrt(mean(x²) + epsilon) · w · activation(gate) )

    x           [..., width]    float32: a delta-rule read-out can leave the range of a half
    gate        [..., width]    activation dtype
    weight      [width]         any float dtype, stored around one
    activation  "silu" or "sigmoid" (checkpoint field `output_gate_type`)
    y           [..., width]    dtype of gate; all arithmetic in float32, one rounding at the end

Nothing is aliased and nothing else is written. The reference of a part of `ops.delta_mixer`, which has the kernels.
"""

from __future__ import annotations

from ninfer_core.ops.gated_rms_norm.reference import GateActivation, gated_rms_norm

__all__ = ["GateActivation", "gated_rms_norm"]
