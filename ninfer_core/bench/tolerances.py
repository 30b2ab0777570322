"""How far a program may be from the reference on the same weights, by name and with the reason.

Dummy weights are random, which is the hardest case: every rounding is carried through all layers, many of the largest
logits are nearly equal, and experts that are nearly tied change places. So errors of logits are held against the noise
of the reference itself (`bench.layers`), and every layer is checked from equal inputs besides.
"""

from __future__ import annotations

from dataclasses import dataclass

AGREEMENT = 0.95
"""Share of positions whose largest logit is the reference's, or nearly tied with it. The error is not the same at every
position, least of all behind a router: 2 of 96 were outside with experts, 2 of 96 and 1 of 32 with fp8 activations."""


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

BFLOAT16 = Tolerance(noise_factor=2.0, least_error=0.02, layer_error=0.02)
"""The reference's noise has one rounding in each layer, where two implementations differ in several smaller ones. On
an H200: 1.1 times the noise with 64 dense layers, 1.5 times with 40 layers of experts; 0.010 in the worst layer, the
first, whose stream is small beside what it adds."""

FP8_ACTIVATIONS = Tolerance(noise_factor=8.0, least_error=0.1, layer_error=0.1)
"""A prefill of fp8 weights also rounds activations to e4m3, by up to 2^-4 of their size, before each of a layer's four
products: 0.08 in the first layer and 0.012 in the mean. Over 64 layers of random weights that comes to 7.3 times the
noise: there the layers say more than the logits."""


def tolerance(activation_dtype: str, weights: str) -> Tolerance:
    """`weights` is how the matrices are stored: bf16, fp8 or nvfp4."""
    if activation_dtype == "float32":
        return FLOAT32
    return FP8_ACTIVATIONS if weights == "fp8" else BFLOAT16
