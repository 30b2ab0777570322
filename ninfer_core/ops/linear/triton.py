"""The linear map on a CUDA device: one kernel for few rows, the matrix library for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.few import Factor, Following, Share, linear_few_rows, linear_few_rows_pair
from ninfer_core.ops.linear.many import linear_many_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix, Nvfp4Matrix
from ninfer_core.ops.linear.reference import linear
from ninfer_core.ops.linear.sort import factors_of, sort_inputs, sort_scaled
from ninfer_core.ops.linear.stream import Norm, Ready, Stream
from ninfer_core.ops.linear.tiles import (
    BESIDE,
    ROW_CLASSES,
    SQUARED,
    SUMMING_CLASS,
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
        x: torch.Tensor | Stream,
        matrix: Matrix,
        row_class: int = 0,
        *,
        norm: Norm | None = None,
        residual: torch.Tensor | None = None,
        gated: bool = False,
    ) -> torch.Tensor:
        """See the package."""
        given = _Rows.of(x, norm)
        width = matrix.outputs // 2 if gated else matrix.outputs
        flat_residual = None if residual is None else residual.reshape(given.count, width).contiguous()
        padded = self._class_of(matrix, given.count, row_class)
        if given.count == 0:
            y = given.flat.new_empty(0, width)
        elif padded is not None:
            y = self._few_rows(given, matrix, padded, residual=flat_residual, gated=gated)
        elif not _takes(matrix) or row_class > max(given.count, ROW_CLASSES[-1]):
            y = linear(given.flat, matrix, row_class, norm=given.norm, residual=flat_residual, gated=gated)
        else:
            y = linear_many_rows(given.flat, matrix, norm=given.norm, residual=flat_residual, gated=gated)
        return y.view(*given.axes, width)

    def pair(
        self, x: torch.Tensor | Stream, matrix: Matrix, beside: Matrix, row_class: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the package."""
        given = _Rows.of(x, None)
        padded = self._class_of(matrix, given.count, row_class)
        if given.count == 0 or padded is None or not isinstance(beside, DenseMatrix):
            normed = _Rows(given.values, given.norm, None).normed().view(given.values.shape)
            return self(normed, matrix, row_class), self(normed, beside, row_class)
        share, fitting = self._share(matrix, given.count, padded, gated=False)
        shares = shares_of("dense", "narrow", beside.inputs, beside.outputs)
        small = Share(beside, BESIDE[fitting], shares)
        form = form_of(matrix)
        ordered, factor = given.prepared(form, fitting)
        plain = given.normed() if _sorts(form, fitting) else ordered
        y, beside_y = linear_few_rows_pair(ordered, plain, share, small, fitting, self.counters, factor)
        return y.view(*given.axes, share.width), beside_y.view(*given.axes, small.width)

    def to_stream(
        self,
        x: torch.Tensor,
        matrix: Matrix,
        row_class: int = 0,
        *,
        residual: torch.Tensor | None = None,
        then: Norm | None,
    ) -> Stream:
        """See the package."""
        given = _Rows.of(x, None)
        padded = self._class_of(matrix, given.count, row_class)
        if then is None or row_class == 0 or padded is None or given.count == 0 or x.dtype == torch.float16:
            return Stream(self(x, matrix, row_class, residual=residual), then)
        width = matrix.outputs
        flat_residual = None if residual is None else residual.reshape(given.count, width).contiguous()
        groups = triton.cdiv(width, SQUARED[form_of(matrix)])
        ready = Ready(x.new_empty(given.count, width), x.new_empty(given.count, groups, dtype=torch.float32))
        following = Following(then, ready)
        y = self._few_rows(given, matrix, padded, residual=flat_residual, gated=False, following=following)
        return Stream(y.view(*given.axes, width), then, ready)

    def _class_of(self, matrix: Matrix, rows: int, row_class: int) -> int | None:
        """The class that the kernel for few rows takes the rows in; None where it does not. With a class of its own, a
        row is taken wherever it stands and however many there are."""
        padded = padded_class(max(rows, row_class))
        many = row_class == 0 and rows > self.most_rows[form_of(matrix)]
        return padded if _takes(matrix) and not many else None

    def _share(self, matrix: Matrix, rows: int, row_class: int, *, gated: bool) -> tuple[Share, int]:
        """Launch parameters, and the class that has the bits of `row_class`."""
        width = matrix.outputs // 2 if gated else matrix.outputs
        form, kind = form_of(matrix), kind_of(matrix, gated=gated)
        fitting = class_for(self.tiles, form, kind, rows, row_class)
        tile = tile_of(self.tiles, form, kind, fitting)
        return Share(matrix, tile, shares_of(form, kind, matrix.inputs, width), gated), fitting

    def _few_rows(
        self,
        given: _Rows,
        matrix: Matrix,
        row_class: int,
        *,
        residual: torch.Tensor | None,
        gated: bool,
        following: Following | None = None,
    ) -> torch.Tensor:
        """-> [rows, outputs], or half as many, with the bits of `row_class`."""
        share, fitting = self._share(matrix, given.count, row_class, gated=gated)
        prepared, factor = given.prepared(form_of(matrix), fitting)
        return linear_few_rows(
            prepared, share, fitting, self.counters, residual=residual, factor=factor, following=following
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """x [..., inputs] as rows, with its norm."""

    values: torch.Tensor
    norm: Norm | None
    ready: Ready | None

    @classmethod
    def of(cls, x: torch.Tensor | Stream, norm: Norm | None) -> _Rows:
        if isinstance(x, Stream):
            assert norm is None, "a stream has its norm"
            return cls(x.values, x.norm, x.ready)
        return cls(x, norm, None)

    @property
    def axes(self) -> torch.Size:
        return self.values.shape[:-1]

    @property
    def flat(self) -> torch.Tensor:
        return self.values.reshape(-1, self.values.shape[-1]).contiguous()

    @property
    def count(self) -> int:
        return self.axes.numel()

    def normed(self) -> torch.Tensor:
        """Up to the factors that rows may lack."""
        if self.ready is not None:
            return self.ready.scaled
        return self.flat if self.norm is None else rms_norm(self.flat, self.norm.weight, self.norm.epsilon)

    def prepared(self, form: Form, row_class: int) -> tuple[torch.Tensor, Factor | None]:
        """The rows after their norm, and the factors that it still lacks.

        A norm that nothing was prepared of is a launch of its own: beside the products it would cost every program
        what it costs once. Codes are multiplied with a sorted x, except by the smallest class, where parting so few
        rows costs nothing.
        """
        if self.norm is None or self.ready is None:
            if _sorts(form, row_class):
                return sort_inputs(self.flat, form, self.norm), None
            return self.normed(), None
        scaled, squares, epsilon = self.ready.scaled, self.ready.squares, self.norm.epsilon
        if row_class <= SUMMING_CLASS:
            return scaled, Factor(squares, epsilon)
        if _sorts(form, row_class):
            ordered, factors = sort_scaled(scaled, form, squares, epsilon)
            return ordered, Factor(factors, epsilon)
        return scaled, Factor(factors_of(squares, scaled.shape[1], epsilon), epsilon)


def _sorts(form: Form, row_class: int) -> bool:
    return form != "dense" and row_class > ROW_CLASSES[0]


def _takes(matrix: Matrix) -> bool:
    """Whether the kernels can read the matrix: rows start where a vector of codes or block scales can be loaded."""
    multiple = 64 if isinstance(matrix, Nvfp4Matrix) else 1 if isinstance(matrix, DenseMatrix) else 16
    return matrix.inputs % multiple == 0
