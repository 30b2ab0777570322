"""The units that have been launched and not collected: whose they are, and when the next one has to be there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from ninfer_core.engine.records import RequestRecord
from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, Unit

LISTENING_SHARE = 0.8
"""Of the shortest round so far: how long messages are taken while a round runs, so that its end is not missed."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A unit in flight. `records` are those that it may yield candidates for, in the order of its rows;
    `processed_tokens` is how far it takes the prompt of its one record, 0 for a unit that is no part of a prompt."""

    unit: Unit
    records: tuple[RequestRecord, ...]
    processed_tokens: int = 0
    yields: bool = True

    @property
    def is_round(self) -> bool:
        return self.yields and not self.processed_tokens


class Flight:
    """First launched, first collected. `clock` is in seconds.

    The oldest began when it was launched, or when the one before it ended. That moment is known only where somebody
    waited for it: of a unit that is found done, nobody can say how long it took, nor what is left of the one behind it.
    """

    __slots__ = ("_began", "_began_is_known", "_clock", "_shortest_round_seconds", "_units")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._units: deque[Launched] = deque()
        self._began = 0.0
        self._began_is_known = True
        self._shortest_round_seconds = inf

    def __len__(self) -> int:
        return len(self._units)

    def add(self, launched: Launched) -> None:
        if not self._units:
            self._began, self._began_is_known = self._clock(), True
        self._units.append(launched)

    @property
    def due(self) -> bool:
        """Whether the oldest has to be collected before anything that depends on what is in flight is launched, or
        because there is no room behind it."""
        return len(self._units) >= MOST_IN_FLIGHT or any(unit.yields for unit in self._units)

    @property
    def yielding(self) -> list[Launched]:
        return [unit for unit in self._units if unit.yields]

    @property
    def unseen(self) -> frozenset[int]:
        """The requests that something in flight may yield candidates for."""
        return frozenset(record.request_id for unit in self.yielding for record in unit.records)

    @property
    def busy_until(self) -> float | None:
        """A time that the oldest certainly runs until; None when nothing can be said."""
        if not self._began_is_known or not self._measured:
            return None
        return self._began + LISTENING_SHARE * self._shortest_round_seconds

    @property
    def idle_seconds(self) -> float:
        """How long at most the device has had nothing to do although units are in flight: it is done with all of them,
        and has certainly been at the oldest until `busy_until`. Where that cannot be said, since it is the oldest."""
        if not self._measured or not self._units[-1].unit.is_done():
            return 0.0
        until = self._began if self.busy_until is None else self.busy_until
        return max(0.0, self._clock() - until)

    @property
    def _measured(self) -> bool:
        """Whether the oldest is a round, and one has been timed."""
        return bool(self._units) and self._units[0].is_round and self._shortest_round_seconds < inf

    def collect(self) -> tuple[Launched, Candidates]:
        """Wait for the oldest."""
        launched = self._units.popleft()
        waits = not launched.unit.is_done()
        candidates = launched.unit()
        now = self._clock()
        if launched.is_round and waits and self._began_is_known:
            self._shortest_round_seconds = min(now - self._began, self._shortest_round_seconds)
        self._began, self._began_is_known = now, waits
        return launched, candidates
