"""Linear layers at the shapes of the published models: every format, on both sides of every route, against float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

from ninfer_core.ops.linear import (
    DenseMatrix,
    Fp8Matrix,
    Matrix,
    Norm,
    dense,
    encode_fp8,
    encode_nvfp4,
    output_rows,
    select,
)
from ninfer_core.ops.linear.select import Linear
from ninfer_core.ops.workspace.linear_tiles import MOST_ROWS, ROW_CLASSES, Form
from ninfer_core.program.compilation import compiling_only

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SHAPES = {
    "delta in": (16480, 5120, "norm"),
    "mixer out": (5120, 6144, "residual"),
    "gate and up": (34816, 5120, "norm gated"),
    "down": (5120, 17408, "residual"),
    "small delta in": (12352, 2048, "norm"),
    "small mixer out": (2048, 4096, "residual"),
    "gates": (96, 5120, "norm"),
    "head": (248320, 5120, ""),
}
"""outputs, inputs and what is fused."""
ROUNDINGS = 0.004
"""Share of the norm of a result that roundings to bfloat16 may make: of x after its norm, and of the result."""
FP8_ACTIVATIONS = 0.04
"""The same where activations have the four bits of e4m3."""
DECODED = 0.006
"""The same where weights are rounded too, once they are out of their codes, and gate and up before they meet."""
COMPARED_ROWS = 16
"""The last ones of a batch: in float64 all rows of a chunk would take as long as everything else."""
CHUNK_ROWS = 8192
COMPANIES = ((1, 3, 8, 9, 31, 33, 64), (8, 32, 64))
"""Rows in a batch, and the classes of rows that they are in."""


ENCODED_ROWS = 65536
"""At a time: the head in float32, several times over, is more than a shared device may have left."""


def encode_groups(weight: torch.Tensor) -> Fp8Matrix:
    coded = encode_fp8(weight)
    return Fp8Matrix(coded.codes, coded.scale * (torch.rand(weight.shape[0], weight.shape[1] // 128).cuda() + 0.5))


FORMATS: dict[Form, Callable[[torch.Tensor], Matrix]] = {
    "dense": DenseMatrix,
    "fp8": encode_fp8,
    "fp8_groups": encode_groups,
    "nvfp4": encode_nvfp4,
}


def encoded(form: Form, weight: torch.Tensor) -> Matrix:
    parts = [FORMATS[form](part) for part in weight.split(ENCODED_ROWS)]
    return type(parts[0])(*(torch.cat(each) for each in zip(*(part.tensors for part in parts), strict=True)))


def batches(form: Form, outputs: int) -> list[tuple[int, int]]:
    """Rows and their class: a class filled, one row less, one row more; rows without a class on both sides of where
    the kernel for few rows ends; a chunk, but of the head, which only ever sees a few rows."""
    with_class = [(rows, most) for most in ROW_CLASSES for rows in (most // 2 + 1, most - 1, most)]
    most = MOST_ROWS[form]
    without = [(1, 0), (most - 1, 0), (most, 0), (most + 1, 0)]
    return [(1, ROW_CLASSES[0]), *with_class, *without, *([(CHUNK_ROWS, 0)] if outputs < CHUNK_ROWS * 8 else [])]


@dataclass(frozen=True, slots=True)
class Map:
    """One linear map, and inputs for the most rows that it is asked for."""

    matrix: Matrix
    norm: Norm | None
    x: torch.Tensor
    residual: torch.Tensor | None
    gated: bool

    def run(self, linear: Linear, live: slice, row_class: int) -> torch.Tensor:
        residual = None if self.residual is None else self.residual[live]
        return linear(self.x[live], self.matrix, row_class, norm=self.norm, residual=residual, gated=self.gated)

    def expected(self, live: slice) -> torch.Tensor:
        wide = self.x[live].double()
        if self.norm is not None:
            scale = (wide.square().mean(-1, keepdim=True) + self.norm.epsilon).sqrt()
            wide = wide / scale * (1 + self.norm.weight.double())
        parts = [output_rows(self.matrix, start, start + 8192) for start in range(0, self.matrix.outputs, 8192)]
        y = torch.cat([wide @ dense(part, torch.float64).T for part in parts], 1)
        if self.gated:
            gate, up = y.chunk(2, -1)
            y = torch.nn.functional.silu(gate) * up
        return y if self.residual is None else y + self.residual[live].double()


def make(form: Form, shape: str) -> Map:
    outputs, inputs, fused = SHAPES[shape]
    rows = max(rows for rows, _ in batches(form, outputs))
    width = outputs // 2 if "gated" in fused else outputs
    return Map(
        matrix=encoded(form, torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) / inputs**0.5),
        norm=Norm((torch.randn(inputs, device="cuda") / 4).bfloat16(), 1e-6) if "norm" in fused else None,
        x=torch.randn(rows, inputs, device="cuda").bfloat16(),
        residual=torch.randn(rows, width, device="cuda").bfloat16() if "residual" in fused else None,
        gated="gated" in fused,
    )


@pytest.fixture(scope="module", params=FORMATS)
def form(request: pytest.FixtureRequest) -> Iterator[Form]:
    """With all kernels compiled side by side: one after the other, each at its first launch, takes minutes."""
    found: Form = request.param
    linear = select(torch.device("cuda"), "auto")
    with compiling_only():
        for shape in SHAPES:
            one = make(found, shape)
            for rows, row_class in batches(found, one.matrix.outputs):
                one.run(linear, slice(rows), row_class)
    yield found
    torch.cuda.empty_cache()


@pytest.mark.parametrize("shape", SHAPES)
def test_full_shapes(form: Form, shape: str) -> None:
    linear, one = select(torch.device("cuda"), "auto"), make(form, shape)
    for rows, row_class in batches(form, one.matrix.outputs):
        last = slice(max(0, rows - COMPARED_ROWS), rows)
        made = one.run(linear, slice(rows), row_class)
        assert made.isfinite().all()
        actual, wanted = made[last].double(), one.expected(last)
        bound = ROUNDINGS
        if row_class == 0 and form != "dense" and rows > MOST_ROWS[form]:
            bound = FP8_ACTIVATIONS if form == "fp8" else DECODED
        assert (actual - wanted).norm() <= bound * wanted.norm(), (rows, row_class)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_depend_on_the_others(form: Form, shape: str) -> None:
    linear, one = select(torch.device("cuda"), "auto"), make(form, shape)
    batch_rows, classes = COMPANIES
    for row_class in classes:
        whole = one.run(linear, slice(row_class), row_class)
        for rows in (rows for rows in batch_rows if rows <= row_class):
            for start in {0, 1, row_class - rows}:
                if start + rows <= row_class:
                    live = slice(start, start + rows)
                    assert torch.equal(one.run(linear, live, row_class), whole[live]), (row_class, rows, start)
