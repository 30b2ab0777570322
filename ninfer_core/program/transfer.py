"""Small copies between host and device that neither side waits for, and an event for what comes back."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, Unit

NOTHING: Candidates = ((),)
"""What a unit of one row gives that only had to go on."""


class Transfer(Protocol):
    """`round_inputs` int64 [3, padded rows] is what a round reads on the device: slots, candidates to count, columns to
    fold."""

    round_inputs: torch.Tensor

    def tell_round(self, inputs: Sequence[tuple[int, int, int]]) -> None:
        """Fill `round_inputs` for the next round: slot, counted and folded of each of its rows."""
        ...

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        """Copy `values`, which are on the host, to `out` of the same shape and dtype; `values` may be dropped."""
        ...

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        """-> int64 [tokens] on the device."""
        ...

    def send(self, candidates: torch.Tensor) -> Unit:
        """The unit that yields `candidates` int64 [rows, columns], in line behind what makes them."""
        ...

    def done(self) -> Unit:
        """The unit of one row that yields nothing."""
        ...


class HostTransfer:
    """On the CPU everything is in place when a unit has been launched."""

    def __init__(self, padded_rows: int) -> None:
        self.round_inputs = torch.zeros(3, padded_rows, dtype=torch.int64)

    def tell_round(self, inputs: Sequence[tuple[int, int, int]]) -> None:
        self.round_inputs[:, : len(inputs)] = torch.tensor(inputs).T

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(values)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).long()

    def send(self, candidates: torch.Tensor) -> Unit:
        rows = _rows(candidates)
        return Unit(lambda: rows)

    def done(self) -> Unit:
        return Unit(lambda: NOTHING)


class CudaTransfer:
    """`most_candidates` bounds rows times columns of a unit. Of the units in flight each has pinned memory of its own:
    when the next one is launched, the one before the last has been collected."""

    def __init__(self, device: torch.device, padded_rows: int, most_candidates: int) -> None:
        self._device = device
        self.round_inputs = torch.zeros(3, padded_rows, dtype=torch.int64, device=device)
        self._told = torch.zeros(MOST_IN_FLIGHT, 3, padded_rows, dtype=torch.int64, pin_memory=True)
        self._sent = torch.zeros(MOST_IN_FLIGHT, most_candidates, dtype=torch.int64, pin_memory=True)
        self._next_told = self._next_sent = 0

    def tell_round(self, inputs: Sequence[tuple[int, int, int]]) -> None:
        told = self._told[self._next_told]
        self._next_told = (self._next_told + 1) % MOST_IN_FLIGHT
        told[:, : len(inputs)] = torch.tensor(inputs).T
        self.round_inputs.copy_(told, non_blocking=True)

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        # The allocator of pinned memory gives a block out again only when the copy from it has been done.
        out.copy_(values.pin_memory(), non_blocking=True)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).pin_memory().to(self._device, non_blocking=True).long()

    def send(self, candidates: torch.Tensor) -> Unit:
        sent = self._sent[self._next_sent, : candidates.numel()].view(candidates.shape)
        self._next_sent = (self._next_sent + 1) % MOST_IN_FLIGHT
        sent.copy_(candidates, non_blocking=True)
        return self._behind_all(lambda: _rows(sent))

    def done(self) -> Unit:
        return self._behind_all(lambda: NOTHING)

    def _behind_all(self, result: Callable[[], Candidates]) -> Unit:
        """The unit that yields `result` once everything launched so far is done."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))

        def collect() -> Candidates:
            event.synchronize()
            return result()

        return Unit(collect, event.query)


def make_transfer(device: torch.device, padded_rows: int, most_candidates: int) -> Transfer:
    if device.type == "cuda":
        return CudaTransfer(device, padded_rows, most_candidates)
    return HostTransfer(padded_rows)


def _int32(token_ids: Sequence[int]) -> torch.Tensor:
    return torch.frombuffer(array("i", token_ids), dtype=torch.int32)


def _rows(candidates: torch.Tensor) -> Candidates:
    rows: list[list[int]] = candidates.tolist()
    return tuple(tuple(row) for row in rows)
