"""Accounting of the KV page pool. Pure Python: the device program and the simulated one count with the same code.

Invariant: every page is either free or owned by exactly one reservation.
"""

from __future__ import annotations

from ninfer_core.plan.memory import pages_for


class PagePool:
    """Hands out whole reservations and takes them back. A page freed last is given out first, since it is warm."""

    __slots__ = ("_free", "_owned", "page_tokens", "pages")

    def __init__(self, *, pages: int, page_tokens: int) -> None:
        self.pages = pages
        self.page_tokens = page_tokens
        self._free = list(range(pages - 1, -1, -1))
        self._owned: set[int] = set()

    @property
    def free_pages(self) -> int:
        return len(self._free)

    def reserve(self, tokens: int) -> tuple[int, ...] | None:
        """Pages for `tokens` tokens in the order of their content, or None when too few are free now."""
        wanted = pages_for(tokens, self.page_tokens)
        if wanted > len(self._free):
            return None
        pages = tuple(self._free.pop() for _ in range(wanted))
        self._owned.update(pages)
        return pages

    def release(self, pages: tuple[int, ...]) -> None:
        """Give back one reservation."""
        assert self._owned.issuperset(pages), f"pages {sorted(set(pages) - self._owned)} are not reserved"
        self._owned.difference_update(pages)
        self._free.extend(reversed(pages))
