"""Small copies between host and device that neither side waits for: host memory that the device can reach by itself,
and an event for what comes back."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import torch

from ninfer_core.program.contract import Candidates, Unit

EMPTY: Candidates = ((),)
"""What a unit of one row gives that only had to go on."""


class Transfer(Protocol):
    """Numbers on their way to the device and candidates on their way back."""

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        """Copy `values`, which are on the host, to `out` of the same shape and dtype; `values` may be dropped."""
        ...

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        """-> int64 [tokens] on the device."""
        ...

    def yielded(self, candidates: torch.Tensor) -> Unit:
        """The unit that yields `candidates` [rows, columns], in line behind what made them. Collected before the next
        one is asked for."""
        ...

    def done(self) -> Unit:
        """The unit of one row that yields nothing."""
        ...


class HostTransfer:
    """On the CPU everything is in place when a unit has been launched."""

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(values)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).long()

    def yielded(self, candidates: torch.Tensor) -> Unit:
        rows = _rows(candidates)
        return lambda: rows

    def done(self) -> Unit:
        return lambda: EMPTY


class CudaTransfer:
    """`most_candidates` bounds rows times columns of a unit."""

    def __init__(self, device: torch.device, most_candidates: int) -> None:
        self._device = device
        self._yielded = torch.empty(most_candidates, dtype=torch.int64, pin_memory=True)

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        # The allocator of pinned memory gives a block out again only when the copy from it has been done.
        out.copy_(values.pin_memory(), non_blocking=True)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).pin_memory().to(self._device, non_blocking=True).long()

    def yielded(self, candidates: torch.Tensor) -> Unit:
        staged = self._yielded[: candidates.numel()].view(candidates.shape)
        staged.copy_(candidates, non_blocking=True)
        event = self._recorded()

        def collect() -> Candidates:
            event.synchronize()
            return _rows(staged)

        return collect

    def done(self) -> Unit:
        event = self._recorded()

        def collect() -> Candidates:
            event.synchronize()
            return EMPTY

        return collect

    def _recorded(self) -> torch.cuda.Event:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def make_transfer(device: torch.device, most_candidates: int) -> Transfer:
    return CudaTransfer(device, most_candidates) if device.type == "cuda" else HostTransfer()


def _int32(token_ids: Sequence[int]) -> torch.Tensor:
    return torch.frombuffer(array("i", token_ids), dtype=torch.int32)


def _rows(candidates: torch.Tensor) -> Candidates:
    rows: list[list[int]] = candidates.tolist()
    return tuple(tuple(row) for row in rows)
