"""The launch of `kernels.few_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from ninfer_core.ops.linear.kernels.few_rows import few_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix
from ninfer_core.ops.linear.tiles import Form, Tile, form_of
from ninfer_core.ops.workspace.linear import LEAST_SHARE

FEW_PROGRAMS = 132
"""Up to so many, a launch leaves most of an H200 free for the next one."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A matrix as the kernel takes it. Places that its format has no use for hold some other of its tensors."""

    format: Form
    weight: torch.Tensor
    block_scale: torch.Tensor
    scale: torch.Tensor


def parts(matrix: Matrix) -> Parts:
    """The tensors of a matrix in the order of the kernel; codes as words of 16 bits."""
    form = form_of(matrix)
    if isinstance(matrix, DenseMatrix):
        return Parts(form, matrix.weight, matrix.weight, matrix.weight)
    words = matrix.codes.view(torch.int16)
    if isinstance(matrix, Fp8Matrix):
        return Parts(form, words, matrix.scale, matrix.scale)
    return Parts(form, words, matrix.block_scale, matrix.scale)


def linear_few_rows(
    x: torch.Tensor,
    matrix: Matrix,
    tile: Tile,
    shares: int,
    row_class: int,
    counters: torch.Tensor,
    *,
    residual: torch.Tensor | None,
    gated: bool,
) -> torch.Tensor:
    """x [rows, inputs], or [places, rows, inputs / places] from `sort_inputs`, contiguous, at most `row_class` rows, a
    power of two -> [rows, outputs], or half as many. `shares` programs share the inputs of a block of outputs.

    counters [at least blocks of outputs] int32 are zero, and are so again afterwards.
    """
    rows, inputs = x.shape[-2], matrix.inputs
    width = matrix.outputs // 2 if gated else matrix.outputs
    blocks = triton.cdiv(width, tile.outputs)
    assert shares == 1 or blocks <= counters.shape[0]
    assert LEAST_SHARE % tile.inputs == 0, "a share is so many blocks of inputs"
    y = x.new_empty(rows, width)
    given = parts(matrix)
    sums = blocks * shares * tile.outputs * row_class * (2 if gated else 1)
    partial = x.new_empty(sums if shares > 1 else 1, dtype=torch.float32)
    options: dict[str, Any] = {"num_warps": tile.warps, "launch_pdl": True} if x.is_cuda else {}
    few_rows[(blocks, shares)](
        x,
        given.weight,
        given.block_scale,
        given.scale,
        x if residual is None else residual,
        y,
        partial,
        counters,
        rows,
        matrix.outputs,
        inputs,
        FORMAT=given.format,
        RESIDUAL=residual is not None,
        GATED=gated,
        EVEN=inputs % tile.inputs == 0,
        SORTED=x.dim() == 3,
        EARLY=blocks * shares <= FEW_PROGRAMS,
        ROWS=row_class,
        OUTPUTS=tile.outputs,
        INPUTS=tile.inputs,
        SPLITS=shares,
        STAGES=tile.stages,
        ASSEMBLY=x.dtype == torch.bfloat16,
        DEPENDENT=x.is_cuda,
        **options,
    )
    return y
