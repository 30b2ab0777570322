"""The launch of `kernels.sort`: x as products with codes read it."""

from __future__ import annotations

from typing import Any

import torch
import triton

from ninfer_core.ops.kernels.codes import E4M3_SHIFT
from ninfer_core.ops.linear.kernels.sort import sort_rows
from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.rms_norm.triton import row_warps
from ninfer_core.ops.workspace.linear_tiles import Form

PLACES: dict[Form, int] = {"dense": 1, "fp8": 2, "fp8_groups": 2, "nvfp4": 4}
"""Codes in a word of 16 bits."""


def sort_inputs(x: torch.Tensor, form: Form, norm: Norm | None) -> torch.Tensor:
    """x [rows, inputs], contiguous -> [places, rows, inputs / places], normed, and scaled where fp8 codes want it."""
    rows, width = x.shape
    places = PLACES[form]
    y = x.new_empty(places, rows, width // places)
    padded = triton.next_power_of_2(width)
    options: dict[str, Any] = {"launch_pdl": True, "num_warps": row_warps(padded)} if x.is_cuda else {}
    sort_rows[(rows,)](
        x,
        x if norm is None else norm.weight,
        y,
        rows,
        width,
        0.0 if norm is None else norm.epsilon,
        FACTOR=1.0 if form == "nvfp4" else E4M3_SHIFT.value,
        PARTS=places,
        NORM=norm is not None,
        PADDED=padded,
        DEPENDENT=x.is_cuda,
        **options,
    )
    return y
