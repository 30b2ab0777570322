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


Kind = Literal["gated", "narrow", "wide"]
"""Matrices of gate and up, other matrices, and those of these that have `WIDE_OUTPUTS` or more."""
SHARED_BLOCK = 64
"""Outputs whose inputs are shared by as many programs as the table says, whatever the tile."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Outputs of a program (of gate and of up, where gated), inputs at once, blocks under way, and its warps."""

    outputs: int
    inputs: int
    stages: int
    warps: int


@dataclass(frozen=True, slots=True)
class Row:
    """What one format has for each kind of matrix."""

    gated: Tile
    narrow: Tile
    wide: Tile


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs that a launch should have of `SHARED_BLOCK` outputs each: where there are fewer, more share a block."""

    gated: int
    narrow: int
    wide: int


Tiles = Mapping[tuple[Form, int], Row]

H200: Tiles = MappingProxyType(
    {
        ("dense", 8): Row(Tile(32, 256, 2, 2), Tile(16, 256, 4, 1), Tile(32, 128, 4, 2)),
        ("dense", 16): Row(Tile(64, 64, 3, 4), Tile(16, 256, 4, 1), Tile(64, 128, 3, 4)),
        ("dense", 32): Row(Tile(64, 64, 3, 4), Tile(16, 256, 4, 1), Tile(64, 128, 3, 4)),
        ("dense", 64): Row(Tile(64, 64, 3, 4), Tile(32, 128, 3, 2), Tile(64, 128, 3, 4)),
        ("dense", 128): Row(Tile(64, 64, 3, 4), Tile(64, 128, 3, 4), Tile(128, 64, 4, 8)),
        ("fp8", 8): Row(Tile(32, 256, 2, 2), Tile(32, 256, 3, 2), Tile(32, 256, 4, 2)),
        ("fp8", 16): Row(Tile(32, 256, 2, 2), Tile(64, 256, 3, 4), Tile(64, 256, 3, 4)),
        ("fp8", 32): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4), Tile(64, 128, 4, 4)),
        ("fp8", 64): Row(Tile(64, 64, 4, 4), Tile(64, 128, 3, 4), Tile(64, 128, 4, 4)),
        ("fp8", 128): Row(Tile(64, 64, 3, 8), Tile(128, 128, 3, 8), Tile(128, 128, 3, 8)),
        ("fp8_groups", 8): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4), Tile(64, 128, 4, 4)),
        ("fp8_groups", 16): Row(Tile(64, 128, 3, 4), Tile(64, 128, 4, 4), Tile(64, 128, 4, 4)),
        ("fp8_groups", 32): Row(Tile(64, 128, 3, 4), Tile(64, 128, 3, 4), Tile(64, 128, 3, 4)),
        ("fp8_groups", 64): Row(Tile(64, 128, 2, 8), Tile(64, 128, 2, 8), Tile(64, 128, 2, 8)),
        ("fp8_groups", 128): Row(Tile(64, 128, 2, 8), Tile(64, 128, 2, 8), Tile(64, 128, 2, 8)),
        ("nvfp4", 8): Row(Tile(32, 256, 3, 2), Tile(64, 256, 3, 4), Tile(32, 256, 4, 2)),
        ("nvfp4", 16): Row(Tile(32, 256, 3, 2), Tile(64, 256, 3, 2), Tile(32, 256, 4, 2)),
        ("nvfp4", 32): Row(Tile(32, 256, 3, 2), Tile(64, 256, 3, 2), Tile(32, 256, 3, 2)),
        ("nvfp4", 64): Row(Tile(64, 128, 3, 4), Tile(64, 256, 2, 4), Tile(64, 256, 2, 4)),
        ("nvfp4", 128): Row(Tile(32, 128, 3, 4), Tile(64, 128, 3, 4), Tile(64, 128, 3, 4)),
    }
)
ALONE: Mapping[Form, Row] = MappingProxyType(
    {"nvfp4": Row(Tile(32, 256, 3, 2), Tile(16, 256, 3, 1), Tile(16, 256, 4, 1))},
)
"""Of one row by itself, in forms for which it is loaded once and stands in every column of the dot: beside weights of
four bits, all rows of the smallest class would be most of what goes through shared memory. The bits are those of that
class."""
PROGRAMS: Mapping[Form, Programs] = MappingProxyType(
    {
        "dense": Programs(1, 66, 1),
        "fp8": Programs(1, 320, 1),
        "fp8_groups": Programs(1, 320, 1),
        "nvfp4": Programs(1, 480, 1),
    }
)
"""By form alone: what a sum is made of must not depend on how many rows there are."""

UNSORTED: Mapping[Form, int] = MappingProxyType({"dense": 128, "fp8": 8, "fp8_groups": 8, "nvfp4": 32})
"""Up to this class a program parts the rows of x for itself, if there is something to part; for more a launch does."""

BESIDE: Mapping[int, Tile] = MappingProxyType(
    {
        8: Tile(16, 256, 3, 2),
        16: Tile(16, 256, 3, 2),
        32: Tile(16, 256, 3, 2),
        64: Tile(32, 128, 3, 2),
        128: Tile(32, 128, 3, 4),
    }
)
"""Of a small dense matrix in the launch of another, by class of rows; its warps are those of the other."""

MOST_ROWS: Mapping[Form, int] = MappingProxyType({"dense": 128, "fp8": 32, "fp8_groups": 64, "nvfp4": 64})
"""Rows without a class, those of a short prompt, up to which the kernel for few rows is the faster one."""


def kind_of(matrix: Matrix, *, gated: bool) -> Kind:
    if gated:
        return "gated"
    return "wide" if matrix.outputs >= WIDE_OUTPUTS else "narrow"


def tile_of(tiles: Tiles, form: Form, kind: Kind, row_class: int) -> Tile:
    tile: Tile = getattr(tiles[form, row_class], kind)
    return tile


def tile_for(tiles: Tiles, form: Form, kind: Kind, rows: int, row_class: int) -> Tile:
    """That of the class, or of one row by itself."""
    if row_class == ROW_CLASSES[0] and stands_alone(form, rows):
        alone: Tile = getattr(ALONE[form], kind)
        return alone
    return tile_of(tiles, form, kind, row_class)


def stands_alone(form: Form, rows: int) -> bool:
    return rows == 1 and form in ALONE


def shares_of(form: Form, kind: Kind, inputs: int, width: int) -> int:
    """Programs among which the inputs of a block of outputs are shared, each at least `LEAST_SHARE`."""
    programs: int = getattr(PROGRAMS[form], kind)
    return max(1, min(programs // -(-width // SHARED_BLOCK), inputs // LEAST_SHARE, MOST_SHARES))


def class_for(tiles: Tiles, form: Form, kind: Kind, rows: int, row_class: int) -> int:
    """The smallest class that holds `rows` and gives a row the same bits as `row_class` would, itself one of them."""
    order = _order(form, tile_of(tiles, form, kind, row_class), row_class)

    def same(other: int) -> bool:
        return _order(form, tile_of(tiles, form, kind, other), other) == order

    return next(each for each in ROW_CLASSES if rows <= each and same(each))


def _order(form: Form, tile: Tile, row_class: int) -> tuple[int, bool]:
    """What the order of a sum depends on besides the shares. In nvfp4 the four places of words are walked block by
    block, and the instruction of one warp has its inputs in another order than that of four warps, which 64 outputs and
    more than the smallest class take. In other forms neither changes a bit (measured on an H200)."""
    if form != "nvfp4":
        return 0, False
    return tile.inputs, tile.warps % 4 == 0 and tile.outputs % 64 == 0 and row_class > ROW_CLASSES[0]


def form_of(matrix: Matrix) -> Form:
    if isinstance(matrix, DenseMatrix):
        return "dense"
    if isinstance(matrix, Fp8Matrix):
        return "fp8" if matrix.scale.shape[-1] == 1 else "fp8_groups"
    return "nvfp4"


def padded_class(rows: int) -> int | None:
    """The smallest class that holds `rows`; None where none does."""
    return next((row_class for row_class in ROW_CLASSES if row_class >= rows), None)
