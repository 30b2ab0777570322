"""Streams that are ready for their norms, at the shapes of a published model: bits in every company, and float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ninfer_core.ops.linear import DenseMatrix, Matrix, Norm, dense, encode_fp8, encode_nvfp4, select
from ninfer_core.ops.linear.tiles import Form

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

FORMATS: dict[Form, Callable[[torch.Tensor], Matrix]] = {"dense": DenseMatrix, "fp8": encode_fp8, "nvfp4": encode_nvfp4}


def random_matrix(form: Form, outputs: int, inputs: int) -> Matrix:
    return FORMATS[form]((torch.randn(outputs, inputs, device="cuda") / inputs**0.5).bfloat16())


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_does_not_depend_on_the_others(form: Form) -> None:
    """Into the stream and out of it, through two matrices at once and through gate and up."""
    linear = select(torch.device("cuda"), "auto")
    out, both, gate_up = (random_matrix(form, *shape) for shape in ((5120, 6144), (16384, 5120), (34816, 5120)))
    gates, norm = random_matrix("dense", 96, 5120), Norm(torch.randn(5120, device="cuda") / 4, 1e-6)
    mixed, residual = (torch.randn(64, width, device="cuda").bfloat16() for width in (6144, 5120))

    def run(live: slice, row_class: int) -> tuple[torch.Tensor, ...]:
        stream = linear.to_stream(mixed[live], out, row_class, residual=residual[live], then=norm)
        assert stream.ready is not None
        paired = linear.pair(stream, both, gates, row_class)
        return stream.values, *paired, linear(stream, gate_up, row_class, gated=True)

    for row_class in (8, 16, 32, 64):
        whole = run(slice(0, row_class), row_class)
        for rows in (1, 3, 8, 9, 31, 33):
            for start in {0, 1, row_class - rows}:
                if 0 <= start <= row_class - rows:
                    part = run(slice(start, start + rows), row_class)
                    for some, all_of_it in zip(part, whole, strict=True):
                        assert torch.equal(some, all_of_it[start : start + rows]), (row_class, rows, start)


@pytest.mark.parametrize("form", FORMATS)
def test_the_error_is_that_of_a_norm_in_a_launch_of_its_own(form: Form) -> None:
    linear = select(torch.device("cuda"), "auto")
    first, matrix = random_matrix(form, 5120, 6144), random_matrix(form, 16384, 5120)
    norm = Norm(torch.randn(5120, device="cuda") / 4, 1e-6)
    stream = linear.to_stream(torch.randn(8, 6144, device="cuda").bfloat16(), first, 8, then=norm)
    wide = stream.values.double()
    wide = wide / (wide.square().mean(-1, keepdim=True) + norm.epsilon).sqrt() * (1 + norm.weight.double())
    wanted = wide @ dense(matrix, torch.float64).T
    ready = (linear(stream, matrix, 8).double() - wanted).norm()
    apart = (linear(stream.values, matrix, 8, norm=norm).double() - wanted).norm()
    assert ready <= 1.02 * apart
