"""How far a program may be from the reference on the same weights, by name and with the reason.

Dummy weights are random, which is the hardest case: every rounding is carried through all layers, many of the largest
logits are nearly equal, and experts that are nearly tied change places. So errors of logits are held against the noise
of the reference itself (`bench.layers`), and every layer is checked from equal inputs besides.
"""

from __future__ import annotations

from dataclasses import dataclass

AGREEMENT = 0.99
"""Share of positions whose largest logit is the reference's, or nearly tied with it."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`noise_factor` times the noise of the reference, or `least_error` if that is more, bounds the error of logits;
    `layer_error` bounds that of one layer."""

    noise_factor: float
    least_error: float
    layer_error: float

    def logit_error(self, noise: float) -> float:
        return max(self.least_error, self.noise_factor * noise)


FLOAT32 = Tolerance(noise_factor=8.0, least_error=2e-3, layer_error=1e-4)
"""Two orders of summation in float32."""

BFLOAT16 = Tolerance(noise_factor=4.0, least_error=0.02, layer_error=0.02)
"""The reference's noise has one rounding in each layer, where two implementations differ in some ten: 3 times as much
by chance."""

FP8_ACTIVATIONS = Tolerance(noise_factor=16.0, least_error=0.1, layer_error=0.06)
"""A prefill of fp8 weights also rounds activations to e4m3, by up to 2^-4 of their size."""


def tolerance(activation_dtype: str, weights: str) -> Tolerance:
    """`weights` is how the matrices are stored: bf16, fp8 or nvfp4."""
    if activation_dtype == "float32":
        return FLOAT32
    return FP8_ACTIVATIONS if weights == "fp8" else BFLOAT16
