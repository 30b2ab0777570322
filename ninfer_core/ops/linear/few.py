"""The launches of `kernels.few_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ninfer_core.ops.linear.kernels.few_rows import few_rows, few_rows_pair
from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix, form_of
from ninfer_core.ops.workspace.linear_tiles import (
    LEAST_SHARE,
    FewRows,
    Form,
    Tile,
    blocks_of,
    shared_sums,
    stands_alone,
)

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


@dataclass(frozen=True, slots=True)
class Share:
    """A matrix whose blocks of outputs have `few.shares` programs each, which share its inputs."""

    matrix: Matrix
    few: FewRows
    gated: bool = False

    @property
    def width(self) -> int:
        """Outputs of the result."""
        return self.matrix.outputs // 2 if self.gated else self.matrix.outputs

    @property
    def tile(self) -> Tile:
        return self.few.tile

    @property
    def shares(self) -> int:
        return self.few.shares

    @property
    def blocks(self) -> int:
        return blocks_of(self.few, self.width)

    @property
    def counters(self) -> int:
        return self.blocks if self.shares > 1 else 0

    def partial(self, like: torch.Tensor) -> torch.Tensor:
        """Where programs leave their sums, if there are several for a block."""
        assert LEAST_SHARE % self.tile.inputs == 0, "a share is so many blocks of inputs"
        sums = shared_sums(self.few, self.width, gated=self.gated)
        return like.new_empty(max(sums, 1), dtype=torch.float32)

    def even(self) -> bool:
        return self.matrix.inputs % self.tile.inputs == 0


def linear_few_rows(
    x: torch.Tensor, share: Share, counters: torch.Tensor, *, residual: torch.Tensor | None = None
) -> torch.Tensor:
    """x [rows, inputs], or [places, rows, inputs / places] from `sort_inputs`, contiguous, no more rows than the class
    of `share` -> [rows, outputs], or half as many.

    counters [at least blocks of outputs] int32 are zero, and are so again afterwards.
    """
    rows, matrix, tile = x.shape[-2], share.matrix, share.tile
    assert share.counters <= counters.shape[0]
    y = x.new_empty(rows, share.width)
    given = parts(matrix)
    few_rows[(share.blocks, share.shares)](
        x,
        given.weight,
        given.block_scale,
        given.scale,
        x if residual is None else residual,
        y,
        share.partial(x),
        counters,
        rows,
        matrix.outputs,
        matrix.inputs,
        FORMAT=given.format,
        RESIDUAL=residual is not None,
        GATED=share.gated,
        EVEN=share.even(),
        SORTED=x.dim() == 3,
        ALONE=x.dim() == 2 and stands_alone(given.format, rows),
        EARLY=share.blocks * share.shares <= FEW_PROGRAMS,
        ROWS=share.few.row_class,
        OUTPUTS=tile.outputs,
        INPUTS=tile.inputs,
        SPLITS=share.shares,
        STAGES=tile.stages,
        **_device_options(x, tile),
    )
    return y


def linear_few_rows_pair(
    x: torch.Tensor,
    beside_x: torch.Tensor,
    share: Share,
    beside: Share,
    counters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for two matrices in one launch; the one of `beside` is dense and takes `beside_x` [rows, inputs], which
    is x where that is not sorted. Its programs have the warps of the others."""
    rows = x.shape[-2]
    used = share.counters
    assert used + beside.counters <= counters.shape[0]
    assert isinstance(beside.matrix, DenseMatrix)
    assert beside.matrix.inputs == share.matrix.inputs
    y, beside_y = x.new_empty(rows, share.width), x.new_empty(rows, beside.width)
    given = parts(share.matrix)
    programs = share.blocks + beside.blocks * beside.shares
    few_rows_pair[(programs, share.shares)](
        x,
        given.weight,
        given.block_scale,
        given.scale,
        y,
        share.partial(x),
        counters,
        share.width,
        beside_x,
        beside.matrix.weight,
        beside_y,
        beside.partial(x),
        counters[used:],
        beside.width,
        rows,
        share.matrix.inputs,
        FORMAT=given.format,
        EVEN=share.even(),
        SORTED=x.dim() == 3,
        ALONE=x.dim() == 2 and stands_alone(given.format, rows),
        EARLY=programs * share.shares <= FEW_PROGRAMS,
        ROWS=share.few.row_class,
        OUTPUTS=share.tile.outputs,
        INPUTS=share.tile.inputs,
        SPLITS=share.shares,
        STAGES=share.tile.stages,
        BESIDE_EVEN=beside.even(),
        BESIDE_OUTPUTS=beside.tile.outputs,
        BESIDE_INPUTS=beside.tile.inputs,
        BESIDE_SPLITS=beside.shares,
        BESIDE_STAGES=beside.tile.stages,
        **_device_options(x, share.tile),
    )
    return y, beside_y


def _device_options(x: torch.Tensor, tile: Tile) -> dict[str, Any]:
    dependent: dict[str, Any] = {"num_warps": tile.warps, "launch_pdl": True} if x.is_cuda else {}
    return {"ASSEMBLY": x.dtype == torch.bfloat16, "DEPENDENT": x.is_cuda, **dependent}
