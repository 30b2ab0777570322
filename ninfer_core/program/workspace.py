"""Where temporaries come from: on CUDA the workspace line of the ledger is taken from the driver at start, in one
block, and left with torch's caching allocator, so that temporaries are carved from it and the device's memory does
not grow afterwards. On the CPU there is nothing to set aside."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

import torch

from ninfer_core.api.artifact import WeightSource

ALLOWED_GROWTH_BYTES = 64 * 1024 * 1024
"""Small temporaries (under 1 MiB) are served from 2 MiB segments of their own, beside the block; every line of the
ledger may be off by this much."""

KEPT_HOLES_BYTES = 1024 * 1024 * 1024
"""What may have been read and dropped before it goes back to the driver, which the device has to be waited for."""


class CompactingWeights:
    """Weights for a CUDA device, read so that what is read and dropped again leaves no holes.

    torch's allocator would put small tensors into the space of a large one that was dropped and keep the rest: over
    a whole model that comes to gigabytes that neither weights nor temporaries can use. Dropped tensors go back to
    the driver before the next one is made instead, once there is enough of them; the last of them go when the
    workspace is made. Where a family reads into tensors that it keeps, there is nothing to give back.
    """

    def __init__(self, weights: WeightSource) -> None:
        self._weights = weights

    def expect(self, names: Iterable[str]) -> None:
        self._weights.expect(names)

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        self._give_back()
        return self._weights.read(name, device)

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        self._weights.read_into(name, out, start)
        self._give_back()

    @staticmethod
    def _give_back() -> None:
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_HOLES_BYTES:
            torch.cuda.empty_cache()


class Workspace(Protocol):
    def check(self) -> None:
        """Say so, with the numbers, when temporaries have outgrown the line of the ledger."""
        ...


class HostWorkspace:
    """The CPU's allocator is the system's."""

    def check(self) -> None:
        return


class CudaWorkspace:
    """Made after weights and pools, so that everything reserved from here on is temporaries."""

    def __init__(self, planned_bytes: int, device: torch.device) -> None:
        self._device = device
        self._planned_bytes = planned_bytes
        self._log = logging.getLogger("ninfer.program")
        torch.cuda.empty_cache()  # what loading the weights left over
        # The matrix library's own workspace belongs to the ledger's device context: have it made outside the block.
        square = torch.zeros(16, 16, dtype=torch.bfloat16, device=device)
        torch.matmul(square, square)
        block = torch.empty(planned_bytes, dtype=torch.uint8, device=device)
        del block
        self._limit_bytes = torch.cuda.memory_reserved(device) + ALLOWED_GROWTH_BYTES

    def check(self) -> None:
        reserved = torch.cuda.memory_reserved(self._device)
        if reserved <= self._limit_bytes:
            return
        over = reserved - self._limit_bytes + ALLOWED_GROWTH_BYTES
        self._log.warning("temporaries outgrew the %d bytes planned for them by %d bytes", self._planned_bytes, over)
        self._limit_bytes = reserved + ALLOWED_GROWTH_BYTES


def weights_for(device: torch.device, weights: WeightSource) -> WeightSource:
    """`weights` as a family should read them for `device`."""
    return CompactingWeights(weights) if device.type == "cuda" else weights


def make_workspace(planned_bytes: int, device: torch.device) -> Workspace:
    return CudaWorkspace(planned_bytes, device) if device.type == "cuda" else HostWorkspace()
