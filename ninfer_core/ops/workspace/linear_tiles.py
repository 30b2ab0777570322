"""Launch parameters of the kernel of `ops.linear` for few rows, by class of shape: measured on an H200, chosen by
nothing else. They stand here because plans count what a launch with them allocates. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Form = Literal["dense", "fp8", "fp8_groups", "nvfp4"]
"""Formats as the kernel tells them apart."""
FORMS: tuple[Form, ...] = ("dense", "fp8", "fp8_groups", "nvfp4")
WIDE_OUTPUTS = 8192
"""From this many outputs on there are programs enough to keep the memory busy."""
ROW_CLASSES = (8, 16, 32, 64, 128)
"""Rows of x that a dot has, padding included."""
LEAST_SHARE = 512
"""Inputs that are worth a program of their own, where programs share the inputs of a matrix with few outputs."""
MOST_SHARES = 16
"""Programs that share the inputs of one output."""
FP8_INPUTS, NVFP4_INPUTS = 16, 128
INPUT_MULTIPLES: Mapping[str, int] = MappingProxyType(
    {"dense": 1, "fp8": FP8_INPUTS, "fp8_groups": FP8_INPUTS, "nvfp4": NVFP4_INPUTS}
)
"""What the inputs of a matrix must be a multiple of for kernels to take it, by its form: rows start where a vector of
codes can be loaded, and consist of whole sets of words that are exchanged (`linear.arrangement`)."""

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


@dataclass(frozen=True, slots=True)
class FewRows:
    """How the kernel for few rows takes a product: the class that rows are padded to, how many programs share the
    inputs of a block of outputs, and whether x is sorted for it by a launch of its own."""

    tile: Tile
    row_class: int
    shares: int
    sorted: bool


Route = FewRows | Literal["many", "reference"]
"""The kernel for few rows, the matrix library with kernels around it, or `linear.reference`."""


def route_of(form: Form, *, inputs: int, outputs: int, rows: int, row_class: int, gated: bool) -> Route:
    """How a product with a matrix [outputs, inputs] is computed on a CUDA device."""
    if inputs % INPUT_MULTIPLES[form]:
        return "reference"
    padded = padded_class(max(rows, row_class))
    if padded is None or (row_class == 0 and rows > MOST_ROWS[form]):
        return "reference" if row_class > max(rows, ROW_CLASSES[-1]) else "many"
    kind = kind_of(outputs, gated=gated)
    fitting = class_for(H200, form, kind, rows, padded)
    return FewRows(
        tile=tile_for(H200, form, kind, rows, fitting),
        row_class=fitting,
        shares=shares_of(form, kind, inputs, outputs // 2 if gated else outputs),
        sorted=fitting > UNSORTED[form],
    )


def beside_few(few: FewRows, *, inputs: int, outputs: int) -> FewRows:
    """How the same launch takes a small dense matrix beside its own."""
    shares = shares_of("dense", "narrow", inputs, outputs)
    return FewRows(tile=BESIDE[few.row_class], row_class=few.row_class, shares=shares, sorted=False)


def blocks_of(few: FewRows, width: int) -> int:
    """Blocks of outputs, of which the result has `width`."""
    return -(-width // few.tile.outputs)


def shared_sums(few: FewRows, width: int, *, gated: bool) -> int:
    """Sums, of float32, that programs leave for the last one of their block to add up."""
    if few.shares == 1:
        return 0
    return blocks_of(few, width) * few.shares * few.tile.outputs * few.row_class * (2 if gated else 1)


def most_shared_sums(rows: int) -> int:
    """The same for up to `rows` rows of a matrix of any size and form, with a dense one beside it: blocks of
    `SHARED_BLOCK` outputs times their shares are no more than the programs that a launch should have, and the last tile
    of each share may reach one such block further."""
    programs = max(each.narrow for each in PROGRAMS.values()) + PROGRAMS["dense"].narrow
    row_class = padded_class(rows) or ROW_CLASSES[-1]
    return (programs + 2 * MOST_SHARES) * SHARED_BLOCK * row_class


def kind_of(outputs: int, *, gated: bool) -> Kind:
    if gated:
        return "gated"
    return "wide" if outputs >= WIDE_OUTPUTS else "narrow"


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


def padded_class(rows: int) -> int | None:
    """The smallest class that holds `rows`; None where none does."""
    return next((row_class for row_class in ROW_CLASSES if row_class >= rows), None)
