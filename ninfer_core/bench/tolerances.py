"""How far the logits of a program may be from those of the reference on the same weights, by name and with the reason.

Dummy weights are random, which is the hardest case: every rounding is carried through all layers, and many of the
largest logits are nearly equal, so that a change in the last bits changes which one is the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.api.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class LogitTolerance:
    """`error`: root mean square of the difference over the standard deviation of the reference's logits, at most.
    `agreement`: share of positions whose largest logit is the reference's or nearly tied with it, at least."""

    error: float
    agreement: float


FLOAT32 = LogitTolerance(error=2e-3, agreement=0.99)
"""Two orders of summation in float32."""

BFLOAT16 = LogitTolerance(error=0.15, agreement=0.99)
"""Two orders of summation with activations in bfloat16, through every layer: 0.090 to 0.098 measured with 64 layers of
random weights."""

FP8_ACTIVATIONS = LogitTolerance(error=0.4, agreement=0.99)
"""A prefill of fp8 weights also rounds activations to e4m3, 2^-4 of their size at most."""


EXPERTS = LogitTolerance(error=0.4, agreement=0.99)
"""With a router of random weights some experts are nearly tied in every layer, so that a rounding changes which ones
are chosen: 0.27 measured with 40 layers of random weights."""


def tolerances(plan: ExecutionPlan, weights: str, experts: bool) -> tuple[LogitTolerance, LogitTolerance]:
    """For (prefill, decode) of a plan. `weights` is how its matrices are stored: bf16, fp8 or nvfp4."""
    if plan.activation_dtype == "float32":
        return FLOAT32, FLOAT32
    # A row that decodes has its prompt's state behind it, roundings of its prefill included.
    found = FP8_ACTIVATIONS if weights == "fp8" else EXPERTS if experts else BFLOAT16
    return found, found
