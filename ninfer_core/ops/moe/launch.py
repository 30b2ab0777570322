"""What launches of both kinds share: the shape of a program, and matrices as kernels take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from ninfer_core.ops.linear.few import parts
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix

SHARED_BYTES = 200 * 1024
"""Of the shared memory of a multiprocessor, what the stages of a program may take."""
LEAST_EXPERTS = 128
"""Fewer are padded: one for each thread of the programs that choose among them."""


@dataclass(frozen=True, slots=True)
class Block:
    """A launch's tile: matrix rows, inputs at once, and how a program is run."""

    rows: int
    inputs: int
    warps: int
    stages: int

    def program(self, tokens: int, x: torch.Tensor, layout: str, *others: str) -> dict[str, object]:
        """Options of a launch over tiles of `tokens` tokens and matrices in `layout`, or in `others` in some programs:
        as many of the stages as fit."""
        stage = max(self._stage_bytes(tokens, x, each) for each in (layout, *others))
        stages = max(1, min(self.stages, SHARED_BYTES // stage))
        return {
            "BLOCK_N": self.rows,
            "BLOCK_K": inputs_at_once(self, layout),
            "FORMAT": layout,
            "DOT": dot_dtype(x),
            "num_warps": self.warps,
            "num_stages": stages,
        }

    def _stage_bytes(self, tokens: int, x: torch.Tensor, layout: str) -> int:
        weight_bits = WEIGHT_BITS.get(layout, 8 * x.element_size())
        return (tokens * x.element_size() + self.rows * weight_bits // 8) * inputs_at_once(self, layout)


WEIGHT_BITS = {"fp8": 8, "fp8_groups": 8, "nvfp4": 4}


def padded_experts(experts: int) -> int:
    """Experts as a kernel has them in a tensor."""
    return max(LEAST_EXPERTS, 1 << (experts - 1).bit_length())


def operands(matrix: Matrix, *, words: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, str]:
    """Codes, block scales, scales and the layout, as `linear` names and orders them. Codes come as 16-bit words, unless
    they are multiplied with codes."""
    given = parts(matrix)
    weight = given.weight if words or isinstance(matrix, DenseMatrix) else matrix.codes
    return weight, given.block_scale, given.scale, given.format


def inputs_at_once(block: Block, layout: str) -> int:
    """A block of inputs has one scale a row where there are groups of 128."""
    return min(block.inputs, 128) if layout == "fp8_groups" else block.inputs


def dot_dtype(x: torch.Tensor) -> Any:
    """Dtype of the operands of a dot. Triton's interpreter multiplies the bit patterns of bfloat16 ones."""
    if x.device.type == "cpu":
        return tl.float32
    return _DOTS[x.dtype]


_DOTS = {
    torch.float32: tl.float32,
    torch.bfloat16: tl.bfloat16,
    torch.float8_e4m3fn: tl.float8e4nv,
}


Launcher = Callable[..., None]
"""Kernel, grid, and the arguments of the kernel."""


def start(kernel: Any, grid: tuple[int, ...], *arguments: object, **options: object) -> None:
    """Launch."""
    kernel[grid](*arguments, **options)
