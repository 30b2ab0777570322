"""The gates of Gated DeltaNet beside the rest of its projection, at the shapes of a published model."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from ninfer_core.ops.linear import DenseMatrix, Matrix, Norm, encode_fp8, encode_nvfp4, select
from ninfer_core.ops.workspace.linear_tiles import Form

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

FORMATS: dict[Form, Callable[[torch.Tensor], Matrix]] = {"fp8": encode_fp8, "nvfp4": encode_nvfp4}


def random_weight(outputs: int, inputs: int) -> torch.Tensor:
    return torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) / math.sqrt(inputs)


@pytest.mark.parametrize("form", FORMATS)
def test_results_are_those_of_launches_apart_in_every_company(form: Form) -> None:
    linear = select(torch.device("cuda"), "auto")
    matrix, gates = FORMATS[form](random_weight(16384, 5120)), DenseMatrix(random_weight(96, 5120))
    norm = Norm(torch.randn(5120, device="cuda") / 4, 1e-6)
    x = torch.randn(64, 5120, device="cuda").bfloat16()
    for row_class in (8, 16, 32, 64):
        whole = [linear(x[:row_class], each, row_class, norm=norm) for each in (matrix, gates)]
        for rows in (1, 3, 8, 9, 31, 33, 64):
            for start in {0, 1, row_class - rows}:
                if 0 <= start <= row_class - rows:
                    live = slice(start, start + rows)
                    pair = linear.pair(x[live], matrix, gates, row_class, norm=norm)
                    for some, all_of_it in zip(pair, whole, strict=True):
                        assert torch.equal(some, all_of_it[live]), (row_class, rows, start)
