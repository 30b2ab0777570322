"""Accounting of the state slots: one slot holds the recurrent state, block table and counters of one sequence."""

from __future__ import annotations

import heapq


class SlotPool:
    """Gives out the lowest free slot, so that a lightly loaded engine keeps touching the same memory."""

    __slots__ = ("_free", "_owned", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free = list(range(slots))
        self._owned: set[int] = set()

    @property
    def free_slots(self) -> int:
        return len(self._free)

    def take(self) -> int | None:
        """A slot, or None when all are in use."""
        if not self._free:
            return None
        slot = heapq.heappop(self._free)
        self._owned.add(slot)
        return slot

    def give_back(self, slot: int) -> None:
        assert slot in self._owned, f"state slot {slot} is not in use"
        self._owned.remove(slot)
        heapq.heappush(self._free, slot)
