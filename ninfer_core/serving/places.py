"""Lifetime capacity: every request holds a place from before its preparation until its result is released
(contract EXEC-4)."""

from __future__ import annotations

from ninfer_core.api.errors import ServerOverloaded


class Places:
    """Counts what is taken. Full is an error at once, never a wait (contract EXEC-5)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0

    def take(self) -> Place:
        if self.taken >= self.capacity:
            raise ServerOverloaded(capacity=self.capacity)
        self.taken += 1
        return Place(self)


class Place:
    """Held by `holders` parties; free when the last of them has let go."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._holders = 1

    def hold(self) -> None:
        """One more party has to let go."""
        self._holders += 1

    def let_go(self) -> None:
        assert self._holders > 0, "let go more often than held"
        self._holders -= 1
        if self._holders == 0:
            self._places.taken -= 1
