"""The zero-centred norm, one program for a row, which lies in registers: read once, written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches


@triton.jit
def norm_rows(x, weight, y, width, epsilon, PADDED: tl.constexpr, DEPENDENT: tl.constexpr):
    """x, y [rows, width], contiguous; PADDED is a power of two of at least `width`."""
    let_next_begin(DEPENDENT)  # what follows is a product, which reads weights alone before it waits
    column = tl.arange(0, PADDED)
    inside = column < width
    factor = 1.0 + tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    wait_for_launches(DEPENDENT)
    place = tl.program_id(0).to(tl.int64) * width + column
    wide = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / width + epsilon)
    tl.store(y + place, (wide * scale * factor).to(y.dtype.element_ty), mask=inside)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x [..., width] -> [..., width]; see the package."""
    x = x.contiguous()
    y = torch.empty_like(x)
    width = x.shape[-1]
    if x.numel() == 0:
        return y
    padded = triton.next_power_of_2(width)
    dependent = x.is_cuda
    launch = {"launch_pdl": True, "num_warps": row_warps(padded)} if dependent else {}
    norm_rows[(x.numel() // width,)](x, weight, y, width, epsilon, PADDED=padded, DEPENDENT=dependent, **launch)
    return y


def row_warps(padded: int) -> int:
    """Warps of a program that holds a row: 32 elements a thread where the row is long enough, 16 warps at most. By the
    length of a row alone, since it decides the order of the sum."""
    return max(1, min(16, padded // 1024))
