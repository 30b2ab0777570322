"""Matrix products: see `ninfer_core.ops.linear`. How kernels take one is decided in `linear_tiles`, and read from there
by the launch and by what is counted here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ninfer_core.ops.workspace import FLOAT32, rms_norm, swiglu
from ninfer_core.ops.workspace.linear_tiles import (
    MOST_ROWS,
    ROW_CLASSES,
    FewRows,
    Form,
    beside_few,
    most_shared_sums,
    route_of,
    shared_sums,
)

DECODE_ROWS = 8
"""Rows of the largest decode batch (contract EXEC-1): the padding class of one decode column."""

DECODED_ELEMENTS = 1 << 25
"""Weights that are out of their codes at once, where a product needs them so."""

SCALED_STEP = 16
"""What the library's fp8 product wants inputs and outputs to be multiples of."""


def decoded_outputs(inputs: int) -> int:
    """Output rows that are out of their codes at once."""
    return max(128, DECODED_ELEMENTS // inputs // 128 * 128)


def multiplies_codes(form: Form, *, inputs: int, outputs: int) -> bool:
    """Whether many rows of activations meet such a matrix in codes of their own."""
    return form == "fp8" and inputs % SCALED_STEP == 0 and outputs % SCALED_STEP == 0


def kernel_bytes(
    form: Form,
    *,
    rows: int,
    inputs: int,
    outputs: int,
    row_class: int,
    activation: int,
    normed: bool = False,
    gated: bool = False,
    residual: bool = False,
) -> int:
    """What the routes of a CUDA device make of up to `rows` rows, the result included; `activation` is the bytes of an
    element. A residual costs only the reference something, which takes what no kernel does."""
    needed = partial(
        _product_bytes,
        form,
        inputs=inputs,
        outputs=outputs,
        row_class=row_class,
        activation=activation,
        normed=normed,
        gated=gated,
        residual=residual,
    )
    return _largest(form, rows, row_class, needed)


def pair_bytes(
    form: Form, *, rows: int, inputs: int, outputs: int, beside: int, row_class: int, activation: int
) -> int:
    """The same of a pair that is normed: a matrix with `outputs`, and a dense one with as many as `beside` says."""

    def needed(count: int) -> int:
        sizes = {"inputs": inputs, "rows": count, "row_class": row_class}
        route = route_of(form, outputs=outputs, gated=False, **sizes)
        normed = count * inputs * activation
        if isinstance(route, FewRows):
            small = beside_few(route, inputs=inputs, outputs=beside)
            sums = _sums_bytes(route, outputs, gated=False) + _sums_bytes(small, beside, gated=False)
            results = count * (outputs + beside) * activation
            return normed + (normed if route.sorted else 0) + results + sums
        first = _product_bytes(form, count, inputs, outputs, row_class=row_class, activation=activation)
        second = _product_bytes("dense", count, inputs, beside, row_class=row_class, activation=activation)
        return normed + max(first, count * outputs * activation + second)

    return _largest(form, rows, row_class, needed)


def most_shared_bytes(rows: int) -> int:
    """The sums of programs that share inputs, of matrices of any size."""
    return most_shared_sums(rows) * FLOAT32


def reference_bytes(
    *, rows: int, inputs: int, outputs: int, row_class: int, activation: int, coded: bool = False
) -> int:
    """What the reference needs. With a `row_class` the padded input counts even where `rows` fill it: smaller rounds,
    which are padded, must fit too. `coded` is whether the matrix is in codes. A norm, gated activation or residual
    counts for itself."""
    matrix_rows = max(rows, row_class)
    padded = matrix_rows * inputs if row_class or coded else 0
    return (padded + matrix_rows * outputs) * activation + (decoded_bytes(inputs, outputs, activation) if coded else 0)


def decoded_bytes(inputs: int, outputs: int, activation: int) -> int:
    """A slice of weights in the making: values, values with their block scales, weights in float32, weights."""
    return min(outputs, decoded_outputs(inputs)) * inputs * (3 * FLOAT32 + activation)


def _largest(form: Form, rows: int, row_class: int, needed: Callable[[int], int]) -> int:
    """Of all numbers of rows up to `rows`: what is needed grows with them but for where a product changes its way."""
    turns = {1, *ROW_CLASSES, MOST_ROWS[form], MOST_ROWS[form] + 1, row_class - 1}
    return max(needed(count) for count in {rows, *(turn for turn in turns if 0 < turn < rows)})


def _product_bytes(
    form: Form,
    rows: int,
    inputs: int,
    outputs: int,
    *,
    row_class: int,
    activation: int,
    normed: bool = False,
    gated: bool = False,
    residual: bool = False,
) -> int:
    """Of exactly `rows` rows."""
    route = route_of(form, inputs=inputs, outputs=outputs, rows=rows, row_class=row_class, gated=gated)
    width = outputs // 2 if gated else outputs
    prepared, result = rows * inputs * activation, rows * width * activation
    if isinstance(route, FewRows):
        return (prepared if normed or route.sorted else 0) + result + _sums_bytes(route, width, gated=gated)
    if route == "reference":
        sizes = {"rows": rows, "inputs": inputs, "outputs": outputs, "row_class": row_class}
        product = reference_bytes(**sizes, activation=activation, coded=form != "dense")
        opened = swiglu.workspace_bytes(elements=rows * width, activation=activation) if gated else 0
        added = rows * width * (3 * FLOAT32 + activation) if residual else 0
        whole = product + opened + added
        return max(rms_norm.workspace_bytes(elements=rows * inputs), prepared + whole) if normed else whole
    opened = result if gated else 0
    whole = rows * outputs * activation
    if multiplies_codes(form, inputs=inputs, outputs=outputs):
        return whole + max(rows * (inputs + FLOAT32), opened)  # a byte for a code, a scale for a row
    weights = 0 if form == "dense" else min(outputs, decoded_outputs(inputs)) * inputs * activation
    return (prepared if normed else 0) + whole + max(weights, opened)


def _sums_bytes(few: FewRows, width: int, *, gated: bool) -> int:
    return max(1, shared_sums(few, width, gated=gated)) * FLOAT32
