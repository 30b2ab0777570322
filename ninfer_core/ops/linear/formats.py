"""What the codes of a matrix mean, and how a matrix is put into codes: the bit-exact definition of both formats.

    fp8    scale = absmax(row) / 448,  code = e4m3( w / scale )
    nvfp4  scale = absmax(matrix) / (6 · 448),  block_scale = e4m3( absmax(16 inputs) / 6 / scale ),
           code = e2m1( w / (scale · block_scale) )

All arithmetic is float32 in the order written. e4m3 and e2m1 round to nearest, ties to the even code, and saturate at
448 and 6. A row, block or matrix of zeros has codes of zero (and a scale of one where it would be a divisor). An
expert is a matrix of its own. Weights that are not finite give codes that mean nothing.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ninfer_core.ops.linear.arrangement import arrange, file_order
from ninfer_core.ops.linear.matrix import NVFP4_BLOCK, DenseMatrix, Fp8Matrix, Matrix, Nvfp4Matrix

E4M3_MAXIMUM, E2M1_MAXIMUM = 448.0, 6.0
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitude of each of the eight codes; the fourth bit is the sign."""


def dense(matrix: Matrix, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The weights that the codes stand for, [..., outputs, inputs] in `dtype`: exact up to one rounding of the product
    with the float32 scale, and one to `dtype` where that is shorter."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    if isinstance(matrix, DenseMatrix):
        return matrix.weight.to(dtype)
    if isinstance(matrix, Fp8Matrix):
        values, scale = matrix.codes.to(wide), matrix.scale.to(wide)
        groups = scale.shape[-1]
        if groups == 1:
            return (values * scale).to(dtype)
        return (values * scale.repeat_interleave(128, -1)[..., : matrix.inputs]).to(dtype)
    codes, block_scale = file_order(matrix.codes), matrix.block_scale.to(wide).unsqueeze(-1)
    values = _blocks(e2m1_values(codes, wide)) * block_scale  # exact: six bits
    return (values.flatten(-2) * matrix.scale.to(wide).unsqueeze(-1)).to(dtype)


def encode_fp8(weight: torch.Tensor) -> Fp8Matrix:
    """weight [..., outputs, inputs] -> codes with one scale for each row."""
    wide = weight.float()
    scale = _divisor(_quotient(wide.abs().amax(-1, keepdim=True), E4M3_MAXIMUM))
    return Fp8Matrix(to_e4m3(wide / scale), scale)


def nvfp4_scale(maximum: torch.Tensor) -> torch.Tensor:
    """The scale of a matrix, float32, by its largest magnitude."""
    return _divisor(_quotient(maximum.float(), E2M1_MAXIMUM * E4M3_MAXIMUM))


def encode_nvfp4(weight: torch.Tensor, scale: torch.Tensor | None = None) -> Nvfp4Matrix:
    """weight [..., outputs, inputs] -> codes with one scale for the matrix; `inputs` is a multiple of 16.

    With `scale` [...], `nvfp4_scale` of the whole matrix, `weight` may be a slice of its rows: the codes are those
    that the whole would have there. Raises ValueError for other inputs.
    """
    scale = nvfp4_scale(weight.abs().amax((-2, -1))) if scale is None else scale
    codes, block_scale = nvfp4_codes(weight, scale)
    arrange(codes)
    return Nvfp4Matrix(codes, block_scale, scale.unsqueeze(-1).expand(weight.shape[:-1]).contiguous())


def nvfp4_codes(weight: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with a `scale` -> codes in the order of files, and block scales."""
    if weight.shape[-1] % NVFP4_BLOCK:
        raise ValueError(f"nvfp4 has one scale for {NVFP4_BLOCK} inputs; this matrix has {weight.shape[-1]} inputs")
    wide = weight.float()
    scale = scale.unsqueeze(-1).unsqueeze(-1)
    blocks = _blocks(wide)
    block_scale = to_e4m3(_quotient(blocks.abs().amax(-1), E2M1_MAXIMUM) / scale)
    divisor = _divisor(scale * block_scale.float()).unsqueeze(-1)
    codes = _e2m1_codes(torch.where(block_scale.float().unsqueeze(-1) == 0, 0.0, blocks / divisor)).flatten(-2)
    return codes[..., 0::2] | (codes[..., 1::2] << 4), block_scale


def to_e4m3(values: torch.Tensor) -> torch.Tensor:
    """To the nearest e4m3 value, ties to even; beyond 448 to 448."""
    return values.clamp(-E4M3_MAXIMUM, E4M3_MAXIMUM).to(torch.float8_e4m3fn)


def e2m1_values(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """codes uint8 [..., n] in the order of files -> [..., 2n]: the low four bits of each byte first."""
    magnitudes = torch.tensor(E2M1_VALUES, dtype=dtype, device=codes.device)
    table = torch.cat((magnitudes, -magnitudes))
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2)
    return functional.embedding(nibbles.int(), table.unsqueeze(-1)).squeeze(-1)


def _e2m1_codes(values: torch.Tensor) -> torch.Tensor:
    """The nearest of the sixteen codes, uint8. A value half way takes the even code: `>` where that is the lower."""
    size = values.abs()
    code = (size > 0.25).to(torch.uint8)
    code += size >= 0.75
    code += size > 1.25
    code += size >= 1.75
    code += size > 2.5
    code += size >= 3.5
    code += size > 5.0
    return code | (torch.signbit(values).to(torch.uint8) << 3)


def _blocks(values: torch.Tensor) -> torch.Tensor:
    """[..., inputs] -> [..., inputs / 16, 16]."""
    return values.view(*values.shape[:-1], -1, NVFP4_BLOCK)


def _quotient(values: torch.Tensor, divisor: float) -> torch.Tensor:
    """A division on every device: by a number, CUDA multiplies with its inverse, which is off by one bit."""
    return values / torch.full((), divisor, dtype=values.dtype, device=values.device)


def _divisor(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale == 0, 1.0, scale)
