"""Launches of linear maps for few rows: programs over blocks of outputs and shares of their inputs."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.linear.kernels.share import multiply_share


@triton.jit(do_not_specialize=["rows"])
def few_rows(
    x,
    weight,
    block_scale,
    scale,
    residual,
    y,
    partial,
    counters,
    rows,
    outputs,
    inputs,
    FORMAT: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    EVEN: tl.constexpr,
    SORTED: tl.constexpr,
    ALONE: tl.constexpr,
    EARLY: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    ASSEMBLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """x [rows, inputs] -> y [rows, outputs], or half as many outputs where GATED. Grid: (blocks of results, SPLITS).

    FORMAT is "dense", "fp8" (a scale a row), "fp8_groups" (INPUTS is GROUP) or "nvfp4"; weight and scales as in
    `linear.matrix`, codes as 16-bit words.
    partial [blocks, SPLITS, 2 if GATED, OUTPUTS, ROWS] float32; counters [blocks] int32, zero before and after. EVEN:
    INPUTS divides `inputs`. ROWS, a power of two, is `rows` or more. SORTED: x is as `kernels.sort` makes it, so that
    no program has to part it. ALONE: `rows` is one, which stands in every column of the dot. EARLY: the next launch may
    begin at once; for those that leave most of the device free.
    """
    multiply_share(
        x, weight, block_scale, scale, residual, y, partial, counters, tl.program_id(0), tl.program_id(1),
        rows, outputs, inputs, FORMAT, RESIDUAL, GATED, EVEN, SORTED, ALONE, EARLY, ROWS, OUTPUTS, INPUTS, SPLITS,
        STAGES, ASSEMBLY, DEPENDENT,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def few_rows_pair(
    x,
    weight,
    block_scale,
    scale,
    y,
    partial,
    counters,
    outputs,
    beside_x,
    beside_weight,
    beside_y,
    beside_partial,
    beside_counters,
    beside_outputs,
    rows,
    inputs,
    FORMAT: tl.constexpr,
    EVEN: tl.constexpr,
    SORTED: tl.constexpr,
    ALONE: tl.constexpr,
    EARLY: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    BESIDE_EVEN: tl.constexpr,
    BESIDE_OUTPUTS: tl.constexpr,
    BESIDE_INPUTS: tl.constexpr,
    BESIDE_SPLITS: tl.constexpr,
    BESIDE_STAGES: tl.constexpr,
    ASSEMBLY: tl.constexpr,
    DEPENDENT: tl.constexpr,
):
    """Two of `few_rows` with the same x, of which `beside_x` is not sorted: a matrix, and a small dense one beside it,
    whose programs begin first and end among the others.

    Grid: (BESIDE_SPLITS · blocks of results of the matrix beside + blocks of results, SPLITS).
    """
    beside_programs = tl.cdiv(beside_outputs, BESIDE_OUTPUTS) * BESIDE_SPLITS
    program = tl.program_id(0)
    if program >= beside_programs:
        multiply_share(
            x, weight, block_scale, scale, x, y, partial, counters, program - beside_programs, tl.program_id(1),
            rows, outputs, inputs, FORMAT, False, False, EVEN, SORTED, ALONE, EARLY, ROWS, OUTPUTS, INPUTS, SPLITS,
            STAGES, ASSEMBLY, DEPENDENT,
        )  # fmt: skip
    elif tl.program_id(1) == 0:
        multiply_share(
            beside_x, beside_weight, beside_weight, beside_weight, x, beside_y, beside_partial, beside_counters,
            program // BESIDE_SPLITS, program % BESIDE_SPLITS, rows, beside_outputs, inputs, "dense", False, False,
            BESIDE_EVEN, False, False, EARLY, ROWS, BESIDE_OUTPUTS, BESIDE_INPUTS, BESIDE_SPLITS, BESIDE_STAGES,
            ASSEMBLY, DEPENDENT,
        )  # fmt: skip
