"""Random numbers as a hash of (seed, position, purpose), in integer arithmetic that is the same on every device.

The mixing is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014), applied once for each of the three integers. Products wrap modulo 2^64, as they do in torch on every device.
"""

from __future__ import annotations

from enum import IntEnum

import torch

_UNIT = 2.0**-53
_WEYL = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


class Purpose(IntEnum):
    """What a draw is for. Values are part of the stream: they are never given a new meaning."""

    TOKEN = 0
    DRAFT = 1
    """Choice of a draft, by the drafter."""
    ACCEPT = 2
    """Whether a draft is kept, where its law is known."""
    RESIDUAL = 3
    """The token in place of a draft that was not."""


def uniform(seed: torch.Tensor, position: torch.Tensor, purpose: Purpose) -> torch.Tensor:
    """seed, position int64 of one shape -> float64 of that shape in [0, 1), 53 random bits each.

    A seed of 64 unsigned bits is passed as the int64 with the same bits.
    """
    mixed = _mix(_mix(_mix(seed) + position) + int(purpose))
    return _shift(mixed, 11).double() * _UNIT


def _mix(value: torch.Tensor) -> torch.Tensor:
    value = value + _WEYL
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)


def _shift(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift to the right: torch's own keeps the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
