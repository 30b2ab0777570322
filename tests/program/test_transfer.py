"""Copies between host and a CUDA device that does everything as late as it may: what the host writes while units are in
flight is no unit's that has not been done."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from ninfer_core.program import transfer as transfer_module
from ninfer_core.program.contract import MOST_IN_FLIGHT, Unit
from ninfer_core.program.transfer import CudaTransfer

ROWS, NUMBERS, COLUMNS = 8, 3, 4
ROUNDS = 200


class LateDevice(TorchFunctionMode):
    """In the place of CUDA, with plain memory for pinned one: what nobody waits for is kept for later."""

    def __init__(self) -> None:
        super().__init__()
        self._work: deque[Callable[[], object]] = deque()
        self.given = 0
        self._done = 0

    def give(self, work: Callable[[], object]) -> None:
        self._work.append(work)
        self.given += 1

    def reach(self, place: int) -> None:
        """Do what was given before it."""
        while self._done < place:
            self._work.popleft()()
            self._done += 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if options.pop("non_blocking", False):
            out, source = args
            self.give(lambda: out.copy_(source))
            return out
        options.pop("pin_memory", None)
        if options.get("device") == torch.device("cuda"):
            options["device"] = torch.device("cpu")
        return func(*args, **options)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateDevice]:
    late = LateDevice()

    class Event:
        def record(self, stream: object) -> None:
            self._place = late.given

        def synchronize(self) -> None:
            late.reach(self._place)

        def query(self) -> bool:
            return False

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    with late:
        yield late


class History:
    """Rounds of a random number of rows, whose candidates say what they were told. All are found in one place, as those
    of captured rounds are."""

    def __init__(self, device: LateDevice, seed: int) -> None:
        self._device = device
        self._draw = random.Random(seed)
        self._transfer = CudaTransfer(torch.device("cuda"), ROWS, NUMBERS, ROWS * (2 + COLUMNS))
        self._found = torch.zeros(ROWS, 2 + COLUMNS, dtype=torch.int64)
        self._flight: deque[tuple[Unit, list[tuple[int, ...]]]] = deque()

    def launch(self) -> None:
        draw = self._draw
        told = [tuple(draw.randrange(1 << 40) for _ in range(NUMBERS)) for _ in range(draw.randint(1, ROWS))]
        rows, inputs, found = len(told), self._transfer.round_inputs, self._found
        self._transfer.tell_round(told)

        def run() -> None:
            found[:rows, 0], found[:rows, 1] = NUMBERS, inputs[0, :rows]
            found[:rows, 2 : 2 + NUMBERS] = inputs[:, :rows].T

        self._device.give(run)
        self._flight.append((self._transfer.send_checked(found[:rows]), told))

    def collect(self) -> bool:
        """Whether the oldest unit yields its own."""
        unit, told = self._flight.popleft()
        return list(unit()) == told and unit.drafted() == tuple(row[0] for row in told)

    def run(self) -> bool:
        right = True
        for _ in range(ROUNDS):
            self.launch()
            while len(self._flight) >= MOST_IN_FLIGHT or (self._flight and self._draw.random() < 0.3):
                right &= self.collect()
        while self._flight:
            right &= self.collect()
        return right


@pytest.mark.parametrize("seed", range(3))
def test_units_in_flight_have_memory_of_their_own(device: LateDevice, seed: int) -> None:
    assert History(device, seed).run()


def test_less_memory_than_units_in_flight_would_be_noticed(device: LateDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "MOST_IN_FLIGHT", MOST_IN_FLIGHT - 1)
    assert not History(device, 0).run()
