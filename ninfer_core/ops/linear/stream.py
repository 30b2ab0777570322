"""A residual stream on its way to a norm, and what a linear map that writes it can prepare of that norm.

    norm(v) = (v · (1 + weight)) · factor,      factor = 1 / sqrt(mean(v²) + epsilon), one number for each row

A linear map multiplies sums, so a product of the norm is `factor` times the product of what stands before it. Who
writes v therefore leaves v · (1 + weight) and sums of squares of v, and who reads it has no launch to wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


class Norm(NamedTuple):
    """The zero-centred norm that is applied to the input first: weight [inputs], and what keeps its root from 0."""

    weight: torch.Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class Ready:
    """What is left of a norm is a factor for each row, made of the squares.

    scaled   [rows, width]   v · (1 + weight), rounded to the activation dtype
    squares  [rows, groups]  float32, sums of the squares of v as it is stored; `groups` parts of a row, in order
    """

    scaled: torch.Tensor
    squares: torch.Tensor


@dataclass(frozen=True, slots=True)
class Stream:
    """Values and the norm that their reader wants first, or none.

    values  [..., width]   activation dtype
    ready                  what their writer has prepared of the norm; None: it is taken from the values
    """

    values: torch.Tensor
    norm: Norm | None
    ready: Ready | None = None
