"""Matrix products: see `ninfer_core.ops.linear`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ninfer_core.ops.workspace import FLOAT32

DECODE_ROWS = 8
"""Rows of the largest decode batch (contract EXEC-1): the padding class of one decode column."""

DECODED_ELEMENTS = 1 << 25
"""Weights that are out of their codes at once, where a product needs them so."""

LEAST_SHARE = 512
"""Inputs that are worth a program of their own, where programs share the inputs of a matrix with few outputs."""
MOST_SHARES = 16
"""Programs that share the inputs of one output."""
MOST_PROGRAMS = 816
"""Of a launch whose programs share inputs: some for each multiprocessor of an H200, so that its memory is busy. A
constant: what a sum is made of must not depend on the device."""
SHARED_OUTPUTS = 128
"""Most outputs of one of these programs."""
LARGEST_ROW_CLASS = 128
FP8_INPUTS, NVFP4_INPUTS = 16, 128
INPUT_MULTIPLES: Mapping[str, int] = MappingProxyType(
    {"dense": 1, "fp8": FP8_INPUTS, "fp8_groups": FP8_INPUTS, "nvfp4": NVFP4_INPUTS}
)
"""What the inputs of a matrix must be a multiple of for kernels to take it, by its form: rows start where a vector of
codes can be loaded, and consist of whole sets of words that are exchanged (`linear.arrangement`)."""


def decoded_outputs(inputs: int) -> int:
    """Output rows that are out of their codes at once."""
    return max(128, DECODED_ELEMENTS // inputs // 128 * 128)


def workspace_bytes(
    *, rows: int, inputs: int, outputs: int, row_class: int, activation: int, coded: bool = False
) -> int:
    """`activation` is the bytes of an element. With a `row_class` the padded input counts even where `rows` fill it:
    smaller rounds, which are padded, must fit too. `coded` is whether the matrix is in codes. A norm, gated activation
    or residual counts for itself."""
    reference = reference_bytes(
        rows=rows, inputs=inputs, outputs=outputs, row_class=row_class, activation=activation, coded=coded
    )
    kernels = kernel_bytes(rows=rows, inputs=inputs, outputs=outputs, row_class=row_class, activation=activation)
    return max(reference, kernels)


def kernel_bytes(
    *, rows: int, inputs: int, outputs: int, row_class: int, activation: int, prepared: bool = True
) -> int:
    """What the kernels need: the result, and of few rows the sums of programs that share inputs; the input once more
    where it is `prepared`, that is normed, or sorted for codes. A gated activation or residual is in it."""
    most = min(inputs // LEAST_SHARE, MOST_SHARES) * (outputs + SHARED_OUTPUTS) * FLOAT32
    sums = min(most * min(max(rows, row_class), LARGEST_ROW_CLASS), most_shared_bytes(max(rows, row_class)))
    shared = sums if inputs >= 2 * LEAST_SHARE else 0
    return rows * ((inputs if prepared else 0) + outputs) * activation + shared


def most_shared_bytes(rows: int) -> int:
    """The sums of programs that share inputs, of a matrix of any size."""
    return MOST_PROGRAMS * SHARED_OUTPUTS * min(rows, LARGEST_ROW_CLASS) * FLOAT32


def reference_bytes(
    *, rows: int, inputs: int, outputs: int, row_class: int, activation: int, coded: bool = False
) -> int:
    """What the reference needs, and the library's product of codes."""
    matrix_rows = max(rows, row_class)
    padded = matrix_rows * inputs if row_class or coded else 0  # codes of activations count as much
    return (padded + matrix_rows * outputs) * activation + (decoded_bytes(inputs, outputs, activation) if coded else 0)


def decoded_bytes(inputs: int, outputs: int, activation: int) -> int:
    """A slice of weights in the making: values, values with their block scales, weights in float32, weights."""
    return min(outputs, decoded_outputs(inputs)) * inputs * (3 * FLOAT32 + activation)
