"""A linear map for many rows: the matrix library, with kernels for what stands around it.

Dense weights go to the library as they are. fp8 weights with a scale for each row meet activations in fp8, with a scale
for each token. Other codes are decoded, slice by slice, and meet activations as they are.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch.nn import functional

from ninfer_core.ops.linear.arrangement import EXCHANGED
from ninfer_core.ops.linear.kernels.many_rows import decode_fp8, decode_nvfp4, quantise_rows
from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix, Nvfp4Matrix, form_of, output_rows
from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.rms_norm.triton import rms_norm, row_warps
from ninfer_core.ops.swiglu.triton import swiglu
from ninfer_core.ops.workspace.linear import decoded_outputs, multiplies_codes

DECODE_BLOCK = 1024


def linear_many_rows(
    x: torch.Tensor, matrix: Matrix, *, norm: Norm | None, residual: torch.Tensor | None, gated: bool
) -> torch.Tensor:
    """x [rows, inputs], contiguous -> [rows, outputs], or half as many outputs where `gated`."""
    in_codes = multiplies_codes(form_of(matrix), inputs=matrix.inputs, outputs=matrix.outputs)
    if isinstance(matrix, Fp8Matrix) and in_codes and x.is_cuda:
        y = multiply_codes(*quantise(x, norm), matrix, x.dtype)
    else:
        if norm is not None:
            x = rms_norm(x, norm.weight, norm.epsilon)
        if isinstance(matrix, DenseMatrix):
            if residual is not None and not gated:
                return torch.addmm(residual, x, matrix.weight.t())
            y = functional.linear(x, matrix.weight)
        else:
            y = _multiply_decoded(x, matrix)
    if gated:
        y = swiglu(y)
    return y if residual is None else y.add_(residual)


def multiply_codes(codes: torch.Tensor, scale: torch.Tensor, matrix: Fp8Matrix, dtype: torch.dtype) -> torch.Tensor:
    """codes [rows, inputs] e4m3, scale [rows, 1] -> [rows, outputs]."""
    return torch._scaled_mm(
        codes, matrix.codes.t(), scale_a=scale, scale_b=matrix.scale.t(), out_dtype=dtype, use_fast_accum=True
    )


def quantise(x: torch.Tensor, norm: Norm | None = None, *, gated: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, inputs], or gate ‖ up -> e4m3 codes of the same, normed or activated, and scale float32 [rows, 1]."""
    rows, width = x.shape[0], x.shape[1] // 2 if gated else x.shape[1]
    # The interpreter has another rounding than the format: it returns what is to be rounded.
    codes = torch.empty(rows, width, dtype=torch.float8_e4m3fn if x.is_cuda else torch.float32, device=x.device)
    scale = torch.empty(rows, 1, dtype=torch.float32, device=x.device)
    padded = triton.next_power_of_2(width)
    options: dict[str, Any] = {"launch_pdl": True, "num_warps": row_warps(padded)} if x.is_cuda else {}
    quantise_rows[(rows,)](
        x,
        x if norm is None else norm.weight,
        codes,
        scale,
        width,
        0.0 if norm is None else norm.epsilon,
        NORM=norm is not None,
        GATED=gated,
        PADDED=padded,
        DEPENDENT=x.is_cuda,
        **options,
    )
    return codes.to(torch.float8_e4m3fn), scale


def decode(matrix: Fp8Matrix | Nvfp4Matrix, dtype: torch.dtype) -> torch.Tensor:
    """The weights of a matrix, as `formats.dense` defines them, by a kernel."""
    weight = torch.empty(matrix.outputs, matrix.inputs, dtype=dtype, device=matrix.codes.device)
    inputs, assembly = matrix.inputs, weight.is_cuda
    if isinstance(matrix, Fp8Matrix):
        groups = matrix.scale.shape[-1]
        group = inputs if groups == 1 else 128
        decode_fp8[(matrix.outputs, triton.cdiv(inputs // 2, DECODE_BLOCK))](
            matrix.codes.view(torch.int16),
            matrix.scale,
            weight,
            inputs,
            groups,
            GROUP=group,
            BLOCK=DECODE_BLOCK,
            ASSEMBLY=assembly,
        )
    else:
        decode_nvfp4[(matrix.outputs, triton.cdiv(inputs // 4, DECODE_BLOCK))](
            matrix.codes.view(torch.int16),
            matrix.block_scale,
            matrix.scale,
            weight,
            inputs,
            EXCHANGED=inputs % EXCHANGED == 0,
            BLOCK=DECODE_BLOCK,
            ASSEMBLY=assembly,
        )
    return weight


def _multiply_decoded(x: torch.Tensor, matrix: Fp8Matrix | Nvfp4Matrix) -> torch.Tensor:
    y = x.new_empty(x.shape[0], matrix.outputs)
    step = decoded_outputs(matrix.inputs)
    for start in range(0, matrix.outputs, step):
        part = output_rows(matrix, start, start + step)
        assert not isinstance(part, DenseMatrix)
        torch.mm(x, decode(part, x.dtype).t(), out=y[:, start : start + step])
    return y
