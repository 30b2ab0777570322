"""Small copies between host and device that neither side waits for, and an event for what comes back."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch

from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, Unit

NOTHING: Candidates = ((),)
"""What a unit of one row gives that only had to go on."""


class Transfer(Protocol):
    """`round_inputs` int64 [numbers, padded rows] is what a round reads on the device: slots, candidates to count,
    columns to fold; with a drafter on the host, how many drafts, and those."""

    round_inputs: torch.Tensor

    def tell_round(self, inputs: Sequence[tuple[int, ...]]) -> None:
        """Fill `round_inputs` for the next round: the numbers of each of its rows."""
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

    def send_checked(self, packed: torch.Tensor) -> Unit:
        """The same for a round with drafts: `packed` int64 [rows, 2 + columns], of each row how many candidates it
        offers, how many drafts it checked, and the candidates."""
        ...

    def done(self) -> Unit:
        """The unit of one row that yields nothing."""
        ...


class HostTransfer:
    """On the CPU everything is in place when a unit has been launched."""

    def __init__(self, padded_rows: int, numbers: int) -> None:
        self.round_inputs = torch.zeros(numbers, padded_rows, dtype=torch.int64)

    def tell_round(self, inputs: Sequence[tuple[int, ...]]) -> None:
        self.round_inputs[:, : len(inputs)] = torch.tensor(inputs).T

    def upload(self, values: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(values)

    def token_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return _int32(token_ids).long()

    def send(self, candidates: torch.Tensor) -> Unit:
        rows = _rows(candidates)
        return Unit(lambda: rows)

    def send_checked(self, packed: torch.Tensor) -> Unit:
        checked = _Checked.of(packed)
        return Unit(lambda: checked.candidates, drafted=lambda: checked.drafted)

    def done(self) -> Unit:
        return Unit(lambda: NOTHING)


class CudaTransfer:
    """`most_sent` bounds the numbers that a unit sends. Of the units in flight each has pinned memory of its own: when
    the next one is launched, the one before the last has been collected."""

    def __init__(self, device: torch.device, padded_rows: int, numbers: int, most_sent: int) -> None:
        self._device = device
        self.round_inputs = torch.zeros(numbers, padded_rows, dtype=torch.int64, device=device)
        self._told = torch.zeros(MOST_IN_FLIGHT, numbers, padded_rows, dtype=torch.int64, pin_memory=True)
        self._sent = torch.zeros(MOST_IN_FLIGHT, most_sent, dtype=torch.int64, pin_memory=True)
        self._next_told = self._next_sent = 0

    def tell_round(self, inputs: Sequence[tuple[int, ...]]) -> None:
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
        sent = self._copied(candidates)
        return self._behind_all(lambda: _rows(sent))

    def send_checked(self, packed: torch.Tensor) -> Unit:
        sent = self._copied(packed)
        found: list[_Checked] = []  # read once: the memory is another unit's later

        def candidates() -> Candidates:
            found.append(_Checked.of(sent))
            return found[0].candidates

        return self._behind_all(candidates, lambda: found[0].drafted)

    def done(self) -> Unit:
        return self._behind_all(lambda: NOTHING)

    def _copied(self, numbers: torch.Tensor) -> torch.Tensor:
        """Pinned memory that `numbers` are on their way to."""
        sent = self._sent[self._next_sent, : numbers.numel()].view(numbers.shape)
        self._next_sent = (self._next_sent + 1) % MOST_IN_FLIGHT
        sent.copy_(numbers, non_blocking=True)
        return sent

    def _behind_all(
        self, result: Callable[[], Candidates], drafted: Callable[[], tuple[int, ...]] = lambda: ()
    ) -> Unit:
        """The unit that yields `result` once everything launched so far is done."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))

        def collect() -> Candidates:
            event.synchronize()
            return result()

        return Unit(collect, event.query, drafted)


class _Checked(NamedTuple):
    """What a round with drafts gives, row by row."""

    candidates: Candidates
    drafted: tuple[int, ...]

    @classmethod
    def of(cls, packed: torch.Tensor) -> _Checked:
        rows: list[list[int]] = packed.tolist()
        return cls(tuple(tuple(row[2 : 2 + row[0]]) for row in rows), tuple(row[1] for row in rows))


def make_transfer(device: torch.device, padded_rows: int, numbers: int, most_sent: int) -> Transfer:
    """`numbers` of each row go to the device with a round, and up to `most_sent` come back from a unit."""
    if device.type == "cuda":
        return CudaTransfer(device, padded_rows, numbers, most_sent)
    return HostTransfer(padded_rows, numbers)


def _int32(token_ids: Sequence[int]) -> torch.Tensor:
    return torch.frombuffer(array("i", token_ids), dtype=torch.int32)


def _rows(candidates: torch.Tensor) -> Candidates:
    rows: list[list[int]] = candidates.tolist()
    return tuple(tuple(row) for row in rows)
