from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_core.plan.memory import pages_for
from ninfer_core.program.pages import PagePool
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.slots import SlotPool


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (63, 1), (64, 1), (65, 2), (128, 2)])
def test_pages_for_counts_begun_pages(tokens: int, pages: int) -> None:
    assert pages_for(tokens, 64) == pages


@given(st.lists(st.one_of(st.integers(1, 300), st.just("release")), max_size=40))
def test_a_page_has_one_owner_and_none_is_lost(actions: list[int | str]) -> None:
    pool = PagePool(pages=10, page_tokens=64)
    held: list[tuple[int, ...]] = []
    for action in actions:
        if isinstance(action, str):
            if held:
                pool.release(held.pop(0))
            continue
        free = pool.free_pages
        pages = pool.reserve(action)
        assert (pages is None) == (pages_for(action, 64) > free)
        if pages is not None:
            assert len(pages) == pages_for(action, 64)
            held.append(pages)
    owned = [page for pages in held for page in pages]
    assert len(owned) == len(set(owned)) and set(owned) <= set(range(10))
    assert pool.free_pages == 10 - len(owned)


def test_a_reservation_that_does_not_fit_takes_nothing() -> None:
    pool = PagePool(pages=2, page_tokens=64)
    assert pool.reserve(129) is None
    assert pool.free_pages == 2


def test_releasing_what_is_not_reserved_is_our_mistake() -> None:
    pool = PagePool(pages=2, page_tokens=64)
    pages = pool.reserve(64)
    assert pages is not None
    pool.release(pages)
    with pytest.raises(AssertionError, match="not reserved"):
        pool.release(pages)


def test_slots_are_given_lowest_first_and_once() -> None:
    pool = SlotPool(3)
    assert [pool.take() for _ in range(4)] == [0, 1, 2, None]
    pool.give_back(2)
    pool.give_back(0)
    assert pool.free_slots == 2
    assert pool.take() == 0
    with pytest.raises(AssertionError, match="not in use"):
        pool.give_back(2)


def test_a_row_gets_its_slot_and_its_pages_or_neither() -> None:
    slots, pages = SlotPool(2), PagePool(pages=4, page_tokens=64)
    first = reserve_row(slots, pages, 3 * 64)
    assert isinstance(first, Reservation) and (first.slot, len(first.pages)) == (0, 3)
    assert reserve_row(slots, pages, 2 * 64) is None, "one page is left"
    assert (slots.free_slots, pages.free_pages) == (1, 1)
    assert reserve_row(slots, pages, 64) is not None
    release_row(slots, pages, first)
    assert (slots.free_slots, pages.free_pages) == (1, 3)
    assert reserve_row(slots, pages, 64) is not None
    assert reserve_row(slots, pages, 64) is None, "no slot is left"
    assert (slots.free_slots, pages.free_pages) == (0, 2)
