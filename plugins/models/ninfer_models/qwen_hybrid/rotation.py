"""Frequencies of the rotary positions, and which axis turns which pair. Pure arithmetic, no torch."""

from __future__ import annotations

import math

from ninfer_models.qwen_hybrid.config import Rope, Yarn

TIME, HEIGHT, WIDTH = 0, 1, 2


def inverse_frequencies(rope: Rope) -> tuple[float, ...]:
    """theta^(−2j / rotated dimensions) for every pair j, blended by YaRN where the config asks for it."""
    plain = [rope.theta ** (-j / rope.pairs) for j in range(rope.pairs)]
    if rope.yarn is None:
        return tuple(plain)
    return tuple(_blend(frequency, j, rope, rope.yarn) for j, frequency in enumerate(plain))


def attention_factor(rope: Rope) -> float:
    """What cosines and sines are multiplied by; 1 without YaRN."""
    return 1.0 if rope.yarn is None else rope.yarn.attention_factor


def axes(rope: Rope) -> tuple[int, ...]:
    """The position axis of every pair: height and width take every third pair, up to their share of them."""
    _, height, width = rope.section
    chosen = [TIME] * rope.pairs
    for pair in range(1, min(3 * height, rope.pairs), 3):
        chosen[pair] = HEIGHT
    for pair in range(2, min(3 * width, rope.pairs), 3):
        chosen[pair] = WIDTH
    return tuple(chosen)


def _blend(frequency: float, pair: int, rope: Rope, yarn: Yarn) -> float:
    """Pairs that turn often within the original context keep their frequency, slow ones are stretched by `factor`,
    and between the two the share changes linearly (Peng et al., 2023, section 3.2)."""
    first = max(math.floor(_pair_of(yarn.beta_fast, rope, yarn)), 0)
    last = min(math.ceil(_pair_of(yarn.beta_slow, rope, yarn)), 2 * rope.pairs - 1)
    width = last - first if last != first else 0.001  # one step instead of a ramp, without dividing by zero
    stretched = min(max((pair - first) / width, 0.0), 1.0)
    return frequency / yarn.factor * stretched + frequency * (1.0 - stretched)


def _pair_of(turns: float, rope: Rope, yarn: Yarn) -> float:
    """The (fractional) pair that turns so many times within the original context."""
    return rope.pairs * math.log(yarn.original_positions / (turns * 2.0 * math.pi)) / math.log(rope.theta)
