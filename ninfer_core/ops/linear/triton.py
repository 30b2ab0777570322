"""The linear map on a CUDA device: one kernel for few rows, the matrix library for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ninfer_core.ops.linear.few import linear_few_rows
from ninfer_core.ops.linear.many import linear_many_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix, Nvfp4Matrix
from ninfer_core.ops.linear.reference import Norm, linear
from ninfer_core.ops.linear.sort import sort_inputs
from ninfer_core.ops.linear.tiles import (
    ROW_CLASSES,
    Form,
    Tiles,
    class_for,
    form_of,
    kind_of,
    padded_class,
    shares_of,
    tile_of,
)
from ninfer_core.ops.rms_norm.triton import rms_norm


@dataclass(frozen=True, slots=True)
class TritonLinear:
    """Implements `select.Linear`. `most_rows` is how many rows without a class the kernel for few rows takes, by the
    form of the matrix; those with one it takes up to the largest class that it has. `counters` int32 are zero between
    launches, so that one object serves launches in one order, on one stream."""

    tiles: Tiles
    counters: torch.Tensor
    most_rows: Mapping[Form, int]

    def __call__(
        self,
        x: torch.Tensor,
        matrix: Matrix,
        row_class: int = 0,
        *,
        norm: Norm | None = None,
        residual: torch.Tensor | None = None,
        gated: bool = False,
    ) -> torch.Tensor:
        """See the package."""
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        rows = flat.shape[0]
        width = matrix.outputs // 2 if gated else matrix.outputs
        flat_residual = None if residual is None else residual.reshape(rows, width).contiguous()
        padded = padded_class(max(rows, row_class))
        if rows == 0:
            y = x.new_empty(0, width)
        elif not _takes(matrix) or (padded is None and row_class > rows):
            y = linear(flat, matrix, row_class, norm=norm, residual=flat_residual, gated=gated)
        elif padded is None or (row_class == 0 and rows > self.most_rows[form_of(matrix)]):
            y = linear_many_rows(flat, matrix, norm=norm, residual=flat_residual, gated=gated)
        else:
            y = self._few_rows(flat, matrix, padded, norm=norm, residual=flat_residual, gated=gated)
        return y.view(*x.shape[:-1], width)

    def _few_rows(
        self,
        x: torch.Tensor,
        matrix: Matrix,
        row_class: int,
        *,
        norm: Norm | None,
        residual: torch.Tensor | None,
        gated: bool,
    ) -> torch.Tensor:
        """x [rows, inputs] -> [rows, outputs], or half as many, with the bits of `row_class`."""
        width = matrix.outputs // 2 if gated else matrix.outputs
        form, kind = form_of(matrix), kind_of(matrix, gated=gated)
        fitting = class_for(self.tiles, form, kind, x.shape[0], row_class)
        tile = tile_of(self.tiles, form, kind, fitting)
        shares = shares_of(form, kind, matrix.inputs, width)
        prepared = _prepared(x, form, norm, fitting)
        return linear_few_rows(prepared, matrix, tile, shares, fitting, self.counters, residual=residual, gated=gated)


def _prepared(x: torch.Tensor, form: Form, norm: Norm | None, row_class: int) -> torch.Tensor:
    """x after its norm, in a launch of its own: beside the products it would cost every program what it costs once.

    Codes are multiplied with a sorted x, except by the smallest class, where parting so few rows costs nothing.
    """
    if form != "dense" and row_class > ROW_CLASSES[0]:
        return sort_inputs(x, form, norm)
    return x if norm is None else rms_norm(x, norm.weight, norm.epsilon)


def _takes(matrix: Matrix) -> bool:
    """Whether the kernels can read the matrix: rows start where a vector of codes or block scales can be loaded."""
    multiple = 64 if isinstance(matrix, Nvfp4Matrix) else 1 if isinstance(matrix, DenseMatrix) else 16
    return matrix.inputs % multiple == 0
