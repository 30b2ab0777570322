"""Launch parameters of the kernel for few rows, by class of shape: measured on an H200, chosen by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix
from ninfer_core.ops.workspace.linear import LEAST_SHARE, MOST_SHARES

Form = Literal["dense", "fp8", "fp8_groups", "nvfp4"]
"""Formats as the kernel tells them apart."""
WIDE_OUTPUTS = 8192
"""From this many outputs on there are programs enough to keep the memory busy."""
ROW_CLASSES = (8, 16, 32, 64, 128)
"""Rows of x that a dot has, padding included."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Outputs of a program (of gate and of up, where gated), inputs at once, blocks under way, and its warps.

    Where fewer blocks of outputs than half of `programs` are there, programs share the inputs of a block, each at least
    `LEAST_SHARE`.
    """

    outputs: int
    inputs: int
    stages: int
    warps: int
    programs: int = 0

    def splits(self, inputs: int, width: int) -> int:
        """Programs among which the inputs of a block of outputs are shared."""
        return max(1, min(self.programs // -(-width // self.outputs), inputs // LEAST_SHARE, MOST_SHARES))


@dataclass(frozen=True, slots=True)
class Row:
    """The tiles of one format and row class: of gate and up, of other matrices, and of those from `WIDE_OUTPUTS` on."""

    gated: Tile
    narrow: Tile
    wide: Tile


Tiles = Mapping[tuple[Form, int], Row]

H200: Tiles = MappingProxyType(
    {
        ("dense", 8): Row(Tile(32, 256, 2, 2), Tile(16, 256, 4, 1, 264), Tile(32, 128, 4, 2)),
        ("dense", 16): Row(Tile(64, 128, 2, 4), Tile(64, 128, 3, 4, 264), Tile(64, 128, 3, 4)),
        ("dense", 32): Row(Tile(64, 64, 3, 4), Tile(64, 128, 4, 4, 264), Tile(64, 128, 3, 4)),
        ("dense", 64): Row(Tile(64, 64, 3, 4), Tile(64, 128, 3, 4, 264), Tile(64, 128, 3, 4)),
        ("dense", 128): Row(Tile(64, 64, 3, 4), Tile(128, 64, 4, 8, 132), Tile(128, 64, 4, 8)),
        ("fp8", 8): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4, 320), Tile(64, 256, 4, 4)),
        ("fp8", 16): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4, 528), Tile(64, 256, 3, 4, 528)),
        ("fp8", 32): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4, 528), Tile(64, 128, 3, 4, 528)),
        ("fp8", 64): Row(Tile(64, 64, 3, 4), Tile(64, 128, 3, 4, 264), Tile(64, 128, 3, 4)),
        ("fp8", 128): Row(Tile(64, 64, 3, 8), Tile(128, 128, 3, 8, 264), Tile(128, 128, 3, 8, 264)),
        ("fp8_groups", 8): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4, 320), Tile(64, 128, 4, 4)),
        ("fp8_groups", 16): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4, 528), Tile(64, 128, 4, 4, 528)),
        ("fp8_groups", 32): Row(Tile(64, 128, 3, 4), Tile(64, 128, 3, 4, 528), Tile(64, 128, 3, 4, 528)),
        ("fp8_groups", 64): Row(Tile(64, 128, 2, 8), Tile(64, 128, 2, 8, 264), Tile(64, 128, 2, 8)),
        ("fp8_groups", 128): Row(Tile(64, 128, 2, 8), Tile(64, 128, 2, 8, 264), Tile(64, 128, 2, 8)),
        ("nvfp4", 8): Row(Tile(64, 256, 3, 4, 816), Tile(64, 256, 4, 4, 480), Tile(64, 512, 3, 4)),
        ("nvfp4", 16): Row(Tile(64, 128, 3, 4), Tile(64, 256, 3, 4, 528), Tile(64, 256, 3, 4, 528)),
        ("nvfp4", 32): Row(Tile(64, 128, 3, 4), Tile(64, 128, 3, 4, 528), Tile(64, 128, 3, 4, 528)),
        ("nvfp4", 64): Row(Tile(64, 64, 3, 4), Tile(64, 128, 3, 4, 264), Tile(64, 128, 3, 4)),
        ("nvfp4", 128): Row(Tile(32, 64, 3, 4), Tile(64, 128, 3, 4, 264), Tile(64, 128, 3, 4)),
    }
)

MOST_ROWS: Mapping[Form, int] = MappingProxyType({"dense": 128, "fp8": 32, "fp8_groups": 64, "nvfp4": 64})
"""Rows without a class, those of a short prompt, up to which the kernel for few rows is the faster one."""


def tile_of(tiles: Tiles, matrix: Matrix, row_class: int, *, gated: bool) -> Tile:
    row = tiles[form_of(matrix), row_class]
    if gated:
        return row.gated
    return row.wide if matrix.outputs >= WIDE_OUTPUTS else row.narrow


def form_of(matrix: Matrix) -> Form:
    if isinstance(matrix, DenseMatrix):
        return "dense"
    if isinstance(matrix, Fp8Matrix):
        return "fp8" if matrix.scale.shape[-1] == 1 else "fp8_groups"
    return "nvfp4"


def padded_class(rows: int) -> int | None:
    """The smallest class that holds `rows`; None where none does."""
    return next((row_class for row_class in ROW_CLASSES if row_class >= rows), None)
