"""Matrix products: see `ninfer_core.ops.linear`."""

from __future__ import annotations

DECODE_ROWS = 8
"""Rows of the largest decode batch (contract EXEC-1): the padding class of one decode column."""


def workspace_bytes(*, rows: int, inputs: int, outputs: int, row_class: int, activation: int) -> int:
    """`activation` is the bytes of an element. With a `row_class` the padded input counts even where `rows` fill it:
    smaller rounds, which are padded, must fit too."""
    matrix_rows = max(rows, row_class)
    padded = matrix_rows * inputs if row_class else 0
    return (padded + matrix_rows * outputs) * activation
