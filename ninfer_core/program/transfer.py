"""Small copies between host and device that neither side waits for: host memory that the device reads and writes by
itself, and an event for what comes back."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import torch

from ninfer_core.program.contract import Candidates, Unit

NOTHING: Candidates = ((),)
"""What a unit of one row gives that only had to go on."""


class Transfer(Protocol):
    """`round_inputs` int64 [3, padded rows] is host memory that a round's kernels read: slots, candidates to count,
    columns to fold. It is free again once the round has been collected."""

    round_inputs: torch.Tensor

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        """Copy `values`, which are on the host, to `out` of the same shape and dtype; `values` may be dropped."""
        ...

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        """-> int64 [tokens] on the device."""
        ...

    def send(self, candidates: torch.Tensor) -> torch.Tensor:
        """`candidates` int64 [rows, columns] as they will be on the host once the device is done. What was sent before
        has been collected by then."""
        ...

    def yielded(self, sent: torch.Tensor) -> Unit:
        """The unit that yields what was sent."""
        ...

    def done(self) -> Unit:
        """The unit of one row that yields nothing."""
        ...


class HostTransfer:
    """On the CPU everything is in place when a unit has been launched."""

    def __init__(self, padded_rows: int) -> None:
        self.round_inputs = torch.zeros(3, padded_rows, dtype=torch.int64)

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(values)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).long()

    def send(self, candidates: torch.Tensor) -> torch.Tensor:
        return candidates

    def yielded(self, sent: torch.Tensor) -> Unit:
        rows = _rows(sent)
        return lambda: rows

    def done(self) -> Unit:
        return lambda: NOTHING


class CudaTransfer:
    """`most_candidates` bounds rows times columns of a unit."""

    def __init__(self, device: torch.device, padded_rows: int, most_candidates: int) -> None:
        self._device = device
        self.round_inputs = torch.zeros(3, padded_rows, dtype=torch.int64, pin_memory=True)
        self._sent = torch.zeros(most_candidates, dtype=torch.int64, pin_memory=True)

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        # The allocator of pinned memory gives a block out again only when the copy from it has been done.
        out.copy_(values.pin_memory(), non_blocking=True)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).pin_memory().to(self._device, non_blocking=True).long()

    def send(self, candidates: torch.Tensor) -> torch.Tensor:
        sent = self._sent[: candidates.numel()].view(candidates.shape)
        sent.copy_(candidates, non_blocking=True)
        return sent

    def yielded(self, sent: torch.Tensor) -> Unit:
        event = self._recorded()

        def collect() -> Candidates:
            event.synchronize()
            return _rows(sent)

        return collect

    def done(self) -> Unit:
        event = self._recorded()

        def collect() -> Candidates:
            event.synchronize()
            return NOTHING

        return collect

    def _recorded(self) -> torch.cuda.Event:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def make_transfer(device: torch.device, padded_rows: int, most_candidates: int) -> Transfer:
    if device.type == "cuda":
        return CudaTransfer(device, padded_rows, most_candidates)
    return HostTransfer(padded_rows)


def _int32(token_ids: Sequence[int]) -> torch.Tensor:
    return torch.frombuffer(array("i", token_ids), dtype=torch.int32)


def _rows(candidates: torch.Tensor) -> Candidates:
    rows: list[list[int]] = candidates.tolist()
    return tuple(tuple(row) for row in rows)
