"""The units that have been launched and not collected, and whose they are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ninfer_core.engine.records import RequestRecord
from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, Unit


@dataclass(frozen=True, slots=True)
class Launched:
    """A unit in flight. `records` are those that it may yield candidates for, in the order of its rows;
    `processed_tokens` is how far it takes the prompt of its one record, 0 for a unit that is no part of a prompt."""

    collect: Unit
    records: tuple[RequestRecord, ...]
    processed_tokens: int = 0
    yields: bool = True


class Flight:
    """First launched, first collected."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: deque[Launched] = deque()

    def __bool__(self) -> bool:
        return bool(self._units)

    def add(self, launched: Launched) -> None:
        self._units.append(launched)

    @property
    def due(self) -> bool:
        """Whether the oldest has to be collected before anything else is launched: what to launch depends on what a
        unit in flight yields, or there is no room behind it."""
        return len(self._units) >= MOST_IN_FLIGHT or any(unit.yields for unit in self._units)

    def collect(self) -> tuple[Launched, Candidates]:
        """Wait for the oldest."""
        launched = self._units.popleft()
        return launched, launched.collect()
