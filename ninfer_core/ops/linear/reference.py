"""Linear map through the matrix library of the device, codes decoded slice by slice."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional

from ninfer_core.ops.linear.formats import dense
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix, output_rows
from ninfer_core.ops.rms_norm import rms_norm
from ninfer_core.ops.swiglu import swiglu
from ninfer_core.ops.workspace.linear import decoded_outputs


class Norm(NamedTuple):
    """The zero-centred norm that is applied to the input first: weight [inputs], and what keeps its root from 0."""

    weight: torch.Tensor
    epsilon: float


def linear(
    x: torch.Tensor,
    matrix: Matrix | torch.Tensor,
    row_class: int = 0,
    *,
    norm: Norm | None = None,
    residual: torch.Tensor | None = None,
    gated: bool = False,
) -> torch.Tensor:
    """x [..., inputs] -> [..., outputs], or [..., outputs / 2] where `gated`; see the package."""
    if norm is not None:
        x = rms_norm(x, norm.weight, norm.epsilon)
    rows = x.numel() // x.shape[-1]
    flat = x.reshape(rows, x.shape[-1])
    if rows < row_class:
        flat = functional.pad(flat, (0, 0, 0, row_class - rows))
    y = _product(flat, DenseMatrix(matrix) if isinstance(matrix, torch.Tensor) else matrix)[:rows]
    y = y.reshape(*x.shape[:-1], y.shape[-1])
    if gated:
        y = swiglu(y)
    if residual is not None:
        y = (residual.float() + y.float()).to(y.dtype)
    return y


class ReferenceLinear:
    """Implements `select.Linear`."""

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
        return linear(x, matrix, row_class, norm=norm, residual=residual, gated=gated)

    def pair(
        self, x: torch.Tensor, matrix: Matrix, beside: Matrix, row_class: int = 0, *, norm: Norm | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the package."""
        if norm is not None:
            x = rms_norm(x, norm.weight, norm.epsilon)
        return linear(x, matrix, row_class), linear(x, beside, row_class)


def _product(x: torch.Tensor, matrix: Matrix) -> torch.Tensor:
    """x [rows, inputs] -> [rows, outputs]."""
    if isinstance(matrix, DenseMatrix):
        return functional.linear(x, matrix.weight)
    y = x.new_empty(x.shape[0], matrix.outputs)
    step = decoded_outputs(matrix.inputs)
    for start in range(0, matrix.outputs, step):
        part = output_rows(matrix, start, start + step)
        y[:, start : start + step] = functional.linear(x, dense(part, x.dtype))
    return y
