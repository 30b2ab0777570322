"""How far two results may be apart, by name and with the reason. Tests use these and no literals of their own.

Values come from comparisons that were run (two float32 implementations of the hybrid family against each other and
against float64), rounded up to leave room for another machine's matrix library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|actual − expected| <= absolute + relative · |expected|, element by element."""

    absolute: float
    relative: float

    def check(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """Raises AssertionError with the largest error; anything not finite in `actual` fails."""
        import torch

        assert actual.isfinite().all(), "not finite"
        torch.testing.assert_close(
            actual.double(), expected.double(), atol=self.absolute, rtol=self.relative, check_device=False
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """For 16-bit runs of random models, where single logits may be far off: the mean error and the argmax count."""

    mean_absolute: float
    argmax_share: float

    def check(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """actual, expected [..., vocabulary]; raises AssertionError with the figures."""
        assert actual.isfinite().all(), "not finite"
        error = (actual.double() - expected.double()).abs().mean().item()
        share = (actual.argmax(-1) == expected.argmax(-1)).double().mean().item()
        assert error <= self.mean_absolute, f"mean absolute error {error:.4f} > {self.mean_absolute}"
        assert share >= self.argmax_share, f"argmax agrees in {share:.3f} < {self.argmax_share}"


@dataclass(frozen=True, slots=True)
class Share:
    """|actual − expected| <= largest · |expected| over all elements together: for errors that are noise."""

    largest: float

    def check(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """Raises AssertionError with the share; anything not finite in `actual` fails."""
        assert actual.isfinite().all(), "not finite"
        share = ((actual.double() - expected.double()).norm() / expected.double().norm()).item()
        assert share <= self.largest, f"error is {share:.4f} of the whole > {self.largest}"


FP32_OPERATION = Tolerance(absolute=2e-5, relative=2e-5)
"""One operation in float32 on unit-scale inputs against float64: some hundred roundings of 6e-8 each."""

FP32_DELTA_RULE = Tolerance(absolute=1e-4, relative=1e-4)
"""The delta rule in float32 against float64 over 200 columns: its triangular solves amplify roundings."""

FP32_LOGITS = Tolerance(absolute=1e-3, relative=0.0)
"""End to end in float32 with unit-scale random weights, logits of scale 4: two right implementations were 1.9e-4
apart (chunked against recurrent), and 1.5e-4 from float64."""

BF16_OPERATION = Tolerance(absolute=1e-2, relative=1.6e-2)
"""One operation with bfloat16 in and out against an oracle on the same rounded inputs: two units in the last place."""

BF16_LAYER = Tolerance(absolute=5e-2, relative=3e-2)
"""Three products in a row in bfloat16 on unit-scale inputs, rounded in between, with shares of scores in bfloat16; in
Triton's interpreter, which truncates, 0.023 apart."""

FP8_LAYER = Share(largest=0.1)
"""Two products in a row with activations in e4m3, whose mantissa has three bits: 0.04 where codes are rounded to the
nearest, 0.083 in Triton's interpreter, which truncates."""

BF16_DELTA_RULE = Share(largest=6e-3)
"""The chunked delta rule with products of bfloat16 operands, sums, decay and memory in float32, against float64 on the
same inputs: 3.6e-3 of the result and 3.4e-3 of the memory after 1,000 columns on an H200, whatever their number."""

BF16_LOGITS = Agreement(mean_absolute=0.1, argmax_share=0.9)
"""End to end in bfloat16 on random weights, which are badly conditioned: a reference was at 0.06 and 0.94."""

BF16_EXPERT_LOGITS = Agreement(mean_absolute=0.1, argmax_share=0.8)
"""The same where a router chooses experts: two scores that are as good as equal change places by a rounding, and what
that token leaves in the memory moves all behind it. Of 200 columns of a small model, fifteen times, plain operations in
bfloat16 were at 0.012 to 0.028 and agreed in 0.92 to 0.99; kernels with other roundings agreed in 0.885 once. What is
computed wrongly agrees in next to none."""
