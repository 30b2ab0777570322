"""The launch of `kernels.sort`: x as products with codes read it."""

from __future__ import annotations

from typing import Any

import torch
import triton

from ninfer_core.ops.linear.few import padded_groups
from ninfer_core.ops.linear.kernels.codes import E4M3_SHIFT
from ninfer_core.ops.linear.kernels.sort import row_factors, sort_rows
from ninfer_core.ops.linear.stream import Norm
from ninfer_core.ops.linear.tiles import Form
from ninfer_core.ops.rms_norm.triton import row_warps

PLACES: dict[Form, int] = {"dense": 1, "fp8": 2, "fp8_groups": 2, "nvfp4": 4}
"""Codes in a word of 16 bits."""


def sort_inputs(x: torch.Tensor, form: Form, norm: Norm | None) -> torch.Tensor:
    """x [rows, inputs], contiguous -> [places, rows, inputs / places], normed, and scaled where fp8 codes want it."""
    weight, epsilon = (x, 0.0) if norm is None else norm
    return _sorted(x, form, weight, epsilon, squares=x, factors=x, groups=1, NORM=norm is not None, GROUPS=0)


def sort_scaled(
    x: torch.Tensor, form: Form, squares: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for `Ready.scaled`, whose `squares` [rows, groups] give the factors [rows] that are left."""
    factors = squares.new_empty(squares.shape[0])
    groups = squares.shape[1]
    padded = padded_groups(groups)
    return _sorted(
        x, form, x, epsilon, squares=squares, factors=factors, groups=groups, NORM=False, GROUPS=padded
    ), factors


def factors_of(squares: torch.Tensor, width: int, epsilon: float) -> torch.Tensor:
    """The factors alone, of rows of `width` values."""
    rows, groups = squares.shape
    factors = squares.new_empty(rows)
    options: dict[str, Any] = {"launch_pdl": True, "num_warps": 1} if squares.is_cuda else {}
    row_factors[(rows,)](
        squares,
        factors,
        width,
        groups,
        epsilon,
        GROUPS=padded_groups(groups),
        DEPENDENT=squares.is_cuda,
        **options,
    )
    return factors


def _sorted(
    x: torch.Tensor,
    form: Form,
    weight: torch.Tensor,
    epsilon: float,
    *,
    squares: torch.Tensor,
    factors: torch.Tensor,
    groups: int,
    **norm: Any,
) -> torch.Tensor:
    rows, width = x.shape
    places = PLACES[form]
    y = x.new_empty(places, rows, width // places)
    padded = triton.next_power_of_2(width)
    options: dict[str, Any] = {"launch_pdl": True, "num_warps": row_warps(padded)} if x.is_cuda else {}
    sort_rows[(rows,)](
        x,
        weight,
        squares,
        y,
        factors,
        rows,
        width,
        groups,
        epsilon,
        FACTOR=1.0 if form == "nvfp4" else E4M3_SHIFT.value,
        PARTS=places,
        PADDED=padded,
        DEPENDENT=x.is_cuda,
        **norm,
        **options,
    )
    return y
