"""The gated activation, a block of one row at a time."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import silu
from ninfer_core.ops.kernels.dependent import let_next_begin, wait_for_launches

BLOCK = 1024


@triton.jit
def swiglu_blocks(x, y, width, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr):
    """x [rows, gate ‖ up], y [rows, width], contiguous. Grid: (rows, blocks of the width)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    wait_for_launches(DEPENDENT)
    gate = tl.load(x + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    let_next_begin(DEPENDENT)
    tl.store(y + row * width + column, (silu(gate) * up).to(y.dtype.element_ty), mask=inside)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """x [..., gate ‖ up] -> [..., width]; see the package."""
    x = x.contiguous()
    width = x.shape[-1] // 2
    y = x.new_empty(*x.shape[:-1], width)
    if y.numel() == 0:
        return y
    dependent = x.is_cuda
    launch = {"launch_pdl": True} if dependent else {}
    grid = (y.numel() // width, triton.cdiv(width, BLOCK))
    swiglu_blocks[grid](x, y, width, BLOCK=BLOCK, DEPENDENT=dependent, **launch)
    return y
