"""What a row needs to be open: a state slot and the pages of its longest sequence, both or neither."""

from __future__ import annotations

from typing import NamedTuple

from ninfer_core.program.pages import PagePool
from ninfer_core.program.slots import SlotPool


class Reservation(NamedTuple):
    """`pages` are in the order of their content."""

    slot: int
    pages: tuple[int, ...]


def reserve_row(slots: SlotPool, pages: PagePool, tokens: int) -> Reservation | None:
    """For a sequence of up to `tokens` tokens; None, and nothing taken, when one of the two is short now."""
    slot = slots.take()
    if slot is None:
        return None
    reserved = pages.reserve(tokens)
    if reserved is None:
        slots.give_back(slot)
        return None
    return Reservation(slot, reserved)


def release_row(slots: SlotPool, pages: PagePool, reservation: Reservation) -> None:
    pages.release(reservation.pages)
    slots.give_back(reservation.slot)
