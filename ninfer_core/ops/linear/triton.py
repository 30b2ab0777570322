"""The linear map on a CUDA device: one kernel for few rows, the matrix library for many."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.linear.few import Share, linear_few_rows, linear_few_rows_pair
from ninfer_core.ops.linear.many import linear_many_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix, form_of
from ninfer_core.ops.linear.reference import Norm, linear
from ninfer_core.ops.linear.sort import sort_inputs
from ninfer_core.ops.rms_norm.triton import rms_norm
from ninfer_core.ops.workspace.linear_tiles import FewRows, Form, Route, beside_few, route_of


@dataclass(frozen=True, slots=True)
class TritonLinear:
    """Implements `select.Linear`. `counters` int32 are zero between launches, so that one object serves launches in one
    order, on one stream."""

    counters: torch.Tensor

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
        route = _route(matrix, rows, row_class, gated=gated)
        if rows == 0:
            y = x.new_empty(0, width)
        elif isinstance(route, FewRows):
            prepared = _prepared(flat, form_of(matrix), norm, route)
            y = linear_few_rows(prepared, Share(matrix, route, gated), self.counters, residual=flat_residual)
        elif route == "reference":
            y = linear(flat, matrix, row_class, norm=norm, residual=flat_residual, gated=gated)
        else:
            y = linear_many_rows(flat, matrix, norm=norm, residual=flat_residual, gated=gated)
        return y.view(*x.shape[:-1], width)

    def pair(
        self, x: torch.Tensor, matrix: Matrix, beside: Matrix, row_class: int = 0, *, norm: Norm | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the package."""
        # Not left to `sort_inputs`, which could norm too: the small matrix takes the rows as they are.
        normed = x if norm is None else rms_norm(x, norm.weight, norm.epsilon)
        flat = normed.reshape(-1, x.shape[-1]).contiguous()
        rows = flat.shape[0]
        route = _route(matrix, rows, row_class, gated=False)
        if rows == 0 or not isinstance(route, FewRows) or not isinstance(beside, DenseMatrix):
            return self(normed, matrix, row_class), self(normed, beside, row_class)
        share = Share(matrix, route)
        small = Share(beside, beside_few(route, inputs=beside.inputs, outputs=beside.outputs))
        prepared = _prepared(flat, form_of(matrix), None, route)
        y, beside_y = linear_few_rows_pair(prepared, flat, share, small, self.counters)
        return y.view(*x.shape[:-1], share.width), beside_y.view(*x.shape[:-1], small.width)


def _route(matrix: Matrix, rows: int, row_class: int, *, gated: bool) -> Route:
    form, inputs, outputs = form_of(matrix), matrix.inputs, matrix.outputs
    return route_of(form, inputs=inputs, outputs=outputs, rows=rows, row_class=row_class, gated=gated)


def _prepared(x: torch.Tensor, form: Form, norm: Norm | None, few: FewRows) -> torch.Tensor:
    """x after its norm, in a launch of its own: beside the products it would cost every program what it costs once, and
    half of it left to the products, a factor for each row, costs more than the launch.

    Codes of many rows are multiplied with a sorted x; where rows are few, parting them costs nothing.
    """
    if few.sorted:
        return sort_inputs(x, form, norm)
    return x if norm is None else rms_norm(x, norm.weight, norm.epsilon)
