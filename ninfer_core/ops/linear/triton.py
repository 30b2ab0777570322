"""The linear map on a CUDA device: one kernel for few rows, the matrix library for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ninfer_core.ops.linear.few import Share, linear_few_rows, linear_few_rows_pair
from ninfer_core.ops.linear.many import linear_many_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix
from ninfer_core.ops.linear.reference import Norm, linear
from ninfer_core.ops.linear.sort import sort_inputs
from ninfer_core.ops.linear.tiles import (
    BESIDE,
    ROW_CLASSES,
    UNSORTED,
    Form,
    Tiles,
    class_for,
    form_of,
    kind_of,
    padded_class,
    shares_of,
    tile_for,
)
from ninfer_core.ops.rms_norm.triton import rms_norm
from ninfer_core.ops.workspace.linear import INPUT_MULTIPLES


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
        padded = self._class_of(matrix, rows, row_class)
        if rows == 0:
            y = x.new_empty(0, width)
        elif padded is not None:
            share, fitting = self._share(matrix, rows, padded, gated=gated)
            prepared = _prepared(flat, form_of(matrix), norm, fitting)
            y = linear_few_rows(prepared, share, fitting, self.counters, residual=flat_residual)
        elif not _takes(matrix) or row_class > max(rows, ROW_CLASSES[-1]):
            y = linear(flat, matrix, row_class, norm=norm, residual=flat_residual, gated=gated)
        else:
            y = linear_many_rows(flat, matrix, norm=norm, residual=flat_residual, gated=gated)
        return y.view(*x.shape[:-1], width)

    def pair(
        self, x: torch.Tensor, matrix: Matrix, beside: Matrix, row_class: int = 0, *, norm: Norm | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the package."""
        normed = x if norm is None else rms_norm(x, norm.weight, norm.epsilon)
        flat = normed.reshape(-1, x.shape[-1]).contiguous()
        rows = flat.shape[0]
        padded = self._class_of(matrix, rows, row_class)
        if rows == 0 or padded is None or not isinstance(beside, DenseMatrix):
            return self(normed, matrix, row_class), self(normed, beside, row_class)
        share, fitting = self._share(matrix, rows, padded, gated=False)
        shares = shares_of("dense", "narrow", beside.inputs, beside.outputs)
        small = Share(beside, BESIDE[fitting], shares)
        prepared = _prepared(flat, form_of(matrix), None, fitting)
        y, beside_y = linear_few_rows_pair(prepared, flat, share, small, fitting, self.counters)
        return y.view(*x.shape[:-1], share.width), beside_y.view(*x.shape[:-1], small.width)

    def _class_of(self, matrix: Matrix, rows: int, row_class: int) -> int | None:
        """The class that the kernel for few rows takes the rows in; None where it does not take them."""
        many = row_class == 0 and rows > self.most_rows[form_of(matrix)]
        return padded_class(max(rows, row_class)) if _takes(matrix) and not many else None

    def _share(self, matrix: Matrix, rows: int, row_class: int, *, gated: bool) -> tuple[Share, int]:
        """Launch parameters, and the class for so many rows that has the bits of `row_class`."""
        width = matrix.outputs // 2 if gated else matrix.outputs
        form, kind = form_of(matrix), kind_of(matrix, gated=gated)
        fitting = class_for(self.tiles, form, kind, rows, row_class)
        tile = tile_for(self.tiles, form, kind, rows, fitting)
        return Share(matrix, tile, shares_of(form, kind, matrix.inputs, width), gated), fitting


def _prepared(x: torch.Tensor, form: Form, norm: Norm | None, row_class: int) -> torch.Tensor:
    """x after its norm, in a launch of its own: beside the products it would cost every program what it costs once, and
    half of it left to the products, a factor for each row, costs more than the launch.

    Codes of many rows are multiplied with a sorted x; where rows are few, parting them costs nothing.
    """
    if row_class > UNSORTED[form]:
        return sort_inputs(x, form, norm)
    return x if norm is None else rms_norm(x, norm.weight, norm.epsilon)


def _takes(matrix: Matrix) -> bool:
    """Whether the kernels can read the matrix."""
    return matrix.inputs % INPUT_MULTIPLES[form_of(matrix)] == 0
