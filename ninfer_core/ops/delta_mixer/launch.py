"""Launch parameters of the mixer's kernels, and how rounds and folds cut a memory."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.ops.workspace.gated_delta import MEMORY_EVERY


@dataclass(frozen=True, slots=True)
class Launch:
    """Warps of each kernel, registers of a thread where they are limited (0: they are not), and what else is chosen by
    measuring.

    `decode_warps`, a power of two, are the most that rounds and folds take. `decode_ahead` is how many programs of a
    decode kernel run at once, 0 for no prefetching. `convolve_tile` is how many columns one program of the convolution
    takes. `scan_parts` are the value dimensions that one program of the scan may take, `memory_every` is how many
    chunks share a memory that it leaves; `scan_stages` and `read_stages` are how many chunks a loop has under way.
    `interpreted` computes products in float32, which also takes float32 activations. `dependent` is whether a decode
    kernel may begin before the projection it reads has ended (programmatic dependent launch).
    """

    decode_warps: int
    decode_ahead: int
    convolve_warps: int
    convolve_tile: int
    solve_warps: int
    solve_registers: int
    scan_warps: int
    scan_parts: tuple[int, int]
    scan_stages: int
    memory_every: int
    read_stages: int
    read_warps: int
    read_registers: int
    multiprocessors: int
    dependent: bool
    interpreted: bool


def launch(interpreted: bool = False) -> Launch:
    """The table of launch parameters, measured on an H200. `interpreted` leaves out what Triton's interpreter does not
    know."""
    return Launch(
        decode_warps=4,
        decode_ahead=0 if interpreted else 264,
        convolve_warps=4,
        convolve_tile=32,
        solve_warps=4,
        solve_registers=0 if interpreted else 168,
        scan_warps=4,
        scan_parts=(32, 64),
        scan_stages=3,
        memory_every=MEMORY_EVERY,
        read_stages=1,
        read_warps=4,
        read_registers=0 if interpreted else 168,
        multiprocessors=132,
        dependent=not interpreted,
        interpreted=interpreted,
    )


WARP_VALUES = 32
"""Values of a memory that a warp has to itself, where there are so many."""
LINE_ELEMENTS = 128
"""What a warp loads at once: four elements a lane."""


def partition(key_dim: int, value_dim: int, most_warps: int) -> dict[str, int]:
    """How `kernels.memory` cuts a memory. A warp takes whole lines of it, so that the lanes that hold a vector are
    neighbours: with others between them, Triton 3.6 sums over the wrong ones (it exchanges with lanes 1, 2 and 4 apart
    where the vector is in those 1, 2 and 16 apart; 3.9 does not)."""
    warps = max(1, min(most_warps, value_dim // WARP_VALUES))
    sharing = min(key_dim, max(1, LINE_ELEMENTS * warps // value_dim))
    return {"WARPS": warps, "SHARING": sharing, "num_warps": warps}
