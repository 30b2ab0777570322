"""The launch of `kernels.few_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from ninfer_core.ops.linear.kernels.few_rows import few_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix
from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.linear.tiles import Tile


@dataclass(frozen=True, slots=True)
class Parts:
    """A matrix as the kernel takes it. Places that its format has no use for hold some other of its tensors."""

    format: str
    weight: torch.Tensor
    block_scale: torch.Tensor
    scale: torch.Tensor


def parts(matrix: Matrix) -> Parts:
    """The tensors of a matrix in the order of the kernel; e4m3 codes as bytes."""
    if isinstance(matrix, DenseMatrix):
        return Parts("dense", matrix.weight, matrix.weight, matrix.weight)
    if isinstance(matrix, Fp8Matrix):
        kind = "fp8" if matrix.scale.shape[-1] == 1 else "fp8_groups"
        return Parts(kind, matrix.codes.view(torch.uint8), matrix.scale, matrix.scale)
    return Parts("nvfp4", matrix.codes, matrix.block_scale, matrix.scale)


def linear_few_rows(
    x: torch.Tensor,
    matrix: Matrix,
    tile: Tile,
    row_class: int,
    *,
    norm: Norm | None,
    residual: torch.Tensor | None,
    gated: bool,
) -> torch.Tensor:
    """x [rows, inputs], contiguous, at most `row_class` rows, a power of two -> [rows, outputs], or half as many."""
    rows, inputs = x.shape
    width = matrix.outputs // 2 if gated else matrix.outputs
    y = x.new_empty(rows, width)
    given = parts(matrix)
    options: dict[str, Any] = {"num_warps": tile.warps, "launch_pdl": True} if x.is_cuda else {}
    few_rows[(triton.cdiv(width, tile.outputs),)](
        x,
        given.weight,
        given.block_scale,
        given.scale,
        x if norm is None else norm.weight,
        x if residual is None else residual,
        y,
        rows,
        matrix.outputs,
        inputs,
        0.0 if norm is None else norm.epsilon,
        FORMAT=given.format,
        NORM=norm is not None,
        RESIDUAL=residual is not None,
        GATED=gated,
        EVEN=inputs % tile.inputs == 0,
        ROWS=row_class,
        BLOCK_OUTPUTS=tile.outputs,
        BLOCK_INPUTS=tile.inputs,
        STAGES=tile.stages,
        ASSEMBLY=x.is_cuda,
        DEPENDENT=x.is_cuda,
        **options,
    )
    return y
