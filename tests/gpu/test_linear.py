"""Linear layers at the shapes of the published models: every format, few rows and many, against float64."""

from __future__ import annotations

from collections.abc import Callable

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
from ninfer_core.ops.linear.tiles import MOST_ROWS, Form

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
}
"""outputs, inputs and what is fused."""
ROUNDINGS = 0.004
"""Share of the norm of a result that roundings to bfloat16 may make: of x after its norm, and of the result."""
FP8_ACTIVATIONS = 0.04
"""The same where activations have the four bits of e4m3."""
DECODED = 0.006
"""The same where weights are rounded too, once they are out of their codes, and gate and up before they meet."""


def encode_groups(weight: torch.Tensor) -> Fp8Matrix:
    coded = encode_fp8(weight)
    return Fp8Matrix(coded.codes, coded.scale * (torch.rand(weight.shape[0], weight.shape[1] // 128).cuda() + 0.5))


FORMATS: dict[Form, Callable[[torch.Tensor], Matrix]] = {
    "dense": DenseMatrix,
    "fp8": encode_fp8,
    "fp8_groups": encode_groups,
    "nvfp4": encode_nvfp4,
}


def expected(x: torch.Tensor, matrix: Matrix, norm: Norm | None, residual: torch.Tensor, fused: str) -> torch.Tensor:
    wide = x.double()
    if norm is not None:
        wide = wide / (wide.square().mean(-1, keepdim=True) + norm.epsilon).sqrt() * (1 + norm.weight.double())
    parts = [output_rows(matrix, start, start + 8192) for start in range(0, matrix.outputs, 8192)]
    y = torch.cat([wide @ dense(part, torch.float64).T for part in parts], 1)
    if "gated" in fused:
        gate, up = y.chunk(2, -1)
        y = torch.nn.functional.silu(gate) * up
    return y + residual.double() if "residual" in fused else y


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMATS)
def test_full_shapes(form: Form, shape: str) -> None:
    outputs, inputs, fused = SHAPES[shape]
    linear = select(torch.device("cuda"), "auto")
    matrix = FORMATS[form]((torch.randn(outputs, inputs, device="cuda") / inputs**0.5).bfloat16())
    norm = Norm((torch.randn(inputs, device="cuda") / 4).bfloat16(), 1e-6) if "norm" in fused else None
    gated = "gated" in fused
    for rows, row_class in ((1, 8), (8, 8), (13, 24), (128, 128), (40, 0), (300, 0)):
        x = torch.randn(rows, inputs, device="cuda").bfloat16()
        residual = torch.randn(rows, outputs // 2 if gated else outputs, device="cuda").bfloat16()
        given = residual if "residual" in fused else None
        actual = linear(x, matrix, row_class, norm=norm, residual=given, gated=gated).double()
        wanted = expected(x, matrix, norm, residual, fused)
        bound = ROUNDINGS
        if row_class == 0 and form != "dense" and rows > MOST_ROWS[form]:
            bound = FP8_ACTIVATIONS if form == "fp8" else DECODED
        assert (actual - wanted).norm() <= bound * wanted.norm(), (rows, row_class)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMATS)
def test_a_row_does_not_depend_on_the_others(form: Form, shape: str) -> None:
    outputs, inputs, fused = SHAPES[shape]
    linear = select(torch.device("cuda"), "auto")
    matrix = FORMATS[form]((torch.randn(outputs, inputs, device="cuda") / inputs**0.5).bfloat16())
    norm = Norm((torch.randn(inputs, device="cuda") / 4).bfloat16(), 1e-6) if "norm" in fused else None
    x = torch.randn(64, inputs, device="cuda").bfloat16()
    gated = "gated" in fused
    residual = torch.randn(64, outputs // 2 if gated else outputs, device="cuda").bfloat16()
    for row_class in (8, 32, 64):
        given = residual[:row_class] if "residual" in fused else None
        whole = linear(x[:row_class], matrix, row_class, norm=norm, residual=given, gated=gated)
        for rows in (1, 3, 8, 9, 31, 33, 64):
            for start in {0, 1, row_class - rows}:
                if 0 <= start <= row_class - rows:
                    live = slice(start, start + rows)
                    some = None if given is None else given[live]
                    part = linear(x[live], matrix, row_class, norm=norm, residual=some, gated=gated)
                    assert torch.equal(part, whole[live]), (row_class, rows, start)
