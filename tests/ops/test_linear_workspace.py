"""What plans count for linear maps, against what the routes of a CUDA device allocate: every matrix of the published
models, in every form, for every number of rows at which a product changes its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix, Fp8Matrix, Linear, Matrix, Norm, Nvfp4Matrix
from ninfer_core.ops.workspace import FLOAT32
from ninfer_core.ops.workspace import linear as linear_bytes
from ninfer_core.ops.workspace.linear_tiles import FORMS, MOST_ROWS, ROW_CLASSES, Form
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.unlaunched import unlaunched

LOOSEST = 1.1
LOOSEST_OF_REFERENCE = 2.6
"""What no kernel takes is counted as the reference is."""
MODELS = {
    "27b": ((5120, 16480, "normed"), (5120, 34816, "gated"), (17408, 5120, "residual"), (10240, 5120, "")),
    "35b": ((2048, 12352, "normed"), (2048, 1024, "gated"), (4096, 2048, "residual"), (512, 2048, "")),
}
"""Inputs, outputs, and what stands around the product: where a layer comes in, its gate and up, where it goes out."""
HEADS = {"27b": (5120, 248320), "35b": (2048, 248320)}
PAIRS = {"27b": (5120, 16384, 96), "35b": (2048, 12288, 64)}
"""Inputs, outputs, and outputs of the small matrix."""
COLUMNS = (1, 4, 7, 16)
CHUNKS = (1, 8, 100, 128, 300, 1024, 4096)


@pytest.fixture(scope="module")
def linear() -> Iterator[Linear]:
    pytest.importorskip("triton")
    from ninfer_core.ops.linear.select import triton_route

    with unlaunched() as device:
        yield triton_route(device)


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def matrix_of(form: Form, outputs: int, inputs: int) -> Matrix:
    if form == "dense":
        return DenseMatrix(empty(outputs, inputs))
    if form == "nvfp4":
        block_scale = empty(outputs, inputs // 16, dtype=torch.float8_e4m3fn)
        codes = empty(outputs, inputs // 2, dtype=torch.uint8)
        return Nvfp4Matrix(codes, block_scale, empty(outputs, dtype=torch.float32))
    groups = 1 if form == "fp8" else -(-inputs // 128)
    codes = empty(outputs, inputs, dtype=torch.float8_e4m3fn)
    return Fp8Matrix(codes, empty(outputs, groups, dtype=torch.float32))


def norm_of(inputs: int) -> Norm:
    return Norm(empty(inputs, dtype=torch.float32), 1e-6)


def counts(form: Form, most: int, row_class: int) -> list[int]:
    """Every number of rows at which something may change, up to `most`."""
    before = {row_class, MOST_ROWS[form], *ROW_CLASSES}
    turns = {1, 2, most, *before, *(each + 1 for each in before), *(each - 1 for each in before)}
    return sorted(turn for turn in turns if 0 < turn <= most)


Units = list[tuple[int, int]]
ROUNDS: Units = [(DECODE_ROWS * columns, DECODE_ROWS * columns) for columns in COLUMNS]
"""Most rows of a unit of work, and their class."""
PROMPTS: Units = [(chunk, 0) for chunk in CHUNKS]


def hold(
    form: Form, units: Units, bound: Callable[[int, int], int], work: Callable[[int, int], object], loosest: float
) -> None:
    """`bound` for up to so many rows of a class, `work` for exactly so many."""
    for row_class in {row_class for _, row_class in units}:
        mosts = [most for most, theirs in units if theirs == row_class]
        every = sorted({count for most in mosts for count in counts(form, most, row_class)})
        used = {rows: peak_bytes(lambda: work(rows, row_class)) for rows in every}  # noqa: B023
        for most in mosts:
            taken = max(used[rows] for rows in every if rows <= most)
            counted = bound(most, row_class)
            assert taken <= counted <= loosest * taken, f"{most} rows of {row_class}: {taken} taken, {counted} counted"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_a_product_allocates_what_is_counted(linear: Linear, model: str, form: Form) -> None:
    for inputs, outputs, around in MODELS[model]:
        hold_product(linear, form, inputs, outputs, around, ROUNDS + PROMPTS)
    hold_product(linear, form, *HEADS[model], "", ROUNDS)


@pytest.mark.parametrize("around", ["normed", "gated", "residual"])
@pytest.mark.parametrize("form", FORMS)
def test_rounds_that_no_kernel_takes_are_counted_too(linear: Linear, form: Form, around: str) -> None:
    """With seventeen columns, those of few rows are padded beyond the largest class."""
    hold_product(linear, form, 2048, 4096, around, [(17 * DECODE_ROWS, 17 * DECODE_ROWS)], LOOSEST_OF_REFERENCE)


def hold_product(
    linear: Linear, form: Form, inputs: int, outputs: int, around: str, units: Units, loosest: float = LOOSEST
) -> None:
    matrix, gated = matrix_of(form, outputs, inputs), around == "gated"
    norm = norm_of(inputs) if around in ("gated", "normed") else None

    def bound(most: int, row_class: int) -> int:
        around_it = {"normed": norm is not None, "gated": gated, "residual": around == "residual"}
        sizes = {"rows": most, "inputs": inputs, "outputs": outputs, "row_class": row_class}
        return linear_bytes.kernel_bytes(form, **sizes, activation=2, **around_it)

    def work(rows: int, row_class: int) -> object:
        residual = residuals[:rows] if around == "residual" else None
        return linear(inputs_of_all[:rows], matrix, row_class, norm=norm, residual=residual, gated=gated)

    most = max(most for most, _ in units)
    inputs_of_all, residuals = empty(most, inputs), empty(most, outputs)
    hold(form, units, bound, work, loosest)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", PAIRS)
def test_a_pair_allocates_what_is_counted(linear: Linear, model: str, form: Form) -> None:
    inputs, outputs, beside = PAIRS[model]
    matrix, small, norm = matrix_of(form, outputs, inputs), matrix_of("dense", beside, inputs), norm_of(inputs)
    x = empty(max(CHUNKS), inputs)

    def bound(most: int, row_class: int) -> int:
        sizes = {"rows": most, "inputs": inputs, "outputs": outputs, "beside": beside, "row_class": row_class}
        return linear_bytes.pair_bytes(form, **sizes, activation=2)

    def work(rows: int, row_class: int) -> object:
        return linear.pair(x[:rows], matrix, small, row_class, norm=norm)

    hold(form, ROUNDS + PROMPTS, bound, work, LOOSEST)


@pytest.mark.parametrize("form", FORMS)
def test_no_matrix_has_more_sums_than_are_allowed_for(form: Form) -> None:
    """For captured rounds, whose model is not looked at."""
    for inputs in (512, 2048, 17408, 65536):
        for outputs in range(16, 9000, 176):
            for rows in (8, 64, 128):
                sizes = {"rows": rows, "inputs": inputs, "outputs": outputs, "row_class": rows}
                with_sums = linear_bytes.kernel_bytes(form, **sizes, activation=0)
                assert with_sums <= linear_bytes.most_shared_bytes(rows) + FLOAT32, sizes
