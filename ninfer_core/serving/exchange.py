"""What has to happen when an answer is out: known to whoever works for one HTTP request, through its context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class ExchangeEnd:
    """Callbacks for the end of one exchange, whichever way it ends."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        """Each of them once."""
        while self._callbacks:
            self._callbacks.pop()()


_CURRENT: ContextVar[ExchangeEnd | None] = ContextVar("exchange", default=None)


def current_exchange() -> ExchangeEnd | None:
    """Of the HTTP request that this task works for; None in a task that works for none."""
    return _CURRENT.get()


@contextmanager
def exchange_scope() -> Iterator[None]:
    """The exchange that this block is, in this task and the tasks it creates. It ends with the block."""
    end = ExchangeEnd()
    token = _CURRENT.set(end)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        end.run()
