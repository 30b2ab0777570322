"""Matrices of linear layers as they lie on the device: dense, fp8 and nvfp4.

All have the axes [..., outputs, inputs]; leading axes, if any, count experts. A matrix is a value: nothing here
copies or converts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.workspace.linear_tiles import Form

NVFP4_BLOCK = 16
"""Inputs that share one block scale."""


@dataclass(frozen=True, slots=True)
class DenseMatrix:
    """weight [..., outputs, inputs], a float dtype: that of the activations where kernels run."""

    weight: torch.Tensor

    @property
    def outputs(self) -> int:
        return self.weight.shape[-2]

    @property
    def inputs(self) -> int:
        return self.weight.shape[-1]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (self.weight,)


@dataclass(frozen=True, slots=True)
class Fp8Matrix:
    """W = codes · scale, one scale for each row and each group of `inputs / groups` inputs.

    codes  [..., outputs, inputs]  float8_e4m3fn
    scale  [..., outputs, groups]  float32; groups is 1, or inputs / 128 rounded up for block-scaled checkpoints
    """

    codes: torch.Tensor
    scale: torch.Tensor

    @property
    def outputs(self) -> int:
        return self.codes.shape[-2]

    @property
    def inputs(self) -> int:
        return self.codes.shape[-1]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (self.codes, self.scale)


@dataclass(frozen=True, slots=True)
class Nvfp4Matrix:
    """W = e2m1(code) · block_scale · scale.

    codes        [..., outputs, inputs / 2]   uint8, arranged as `arrangement` says
    block_scale  [..., outputs, inputs / 16]  float8_e4m3fn
    scale        [..., outputs]               float32
    """

    codes: torch.Tensor
    block_scale: torch.Tensor
    scale: torch.Tensor

    @property
    def outputs(self) -> int:
        return self.codes.shape[-2]

    @property
    def inputs(self) -> int:
        return 2 * self.codes.shape[-1]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (self.codes, self.block_scale, self.scale)


Matrix = DenseMatrix | Fp8Matrix | Nvfp4Matrix


def form_of(matrix: Matrix) -> Form:
    if isinstance(matrix, DenseMatrix):
        return "dense"
    if isinstance(matrix, Fp8Matrix):
        return "fp8" if matrix.scale.shape[-1] == 1 else "fp8_groups"
    return "nvfp4"


def output_rows(matrix: Matrix, start: int, stop: int) -> Matrix:
    """Rows `start` to `stop` of a matrix without experts: a view."""
    return type(matrix)(*(tensor[start:stop] for tensor in matrix.tensors))
