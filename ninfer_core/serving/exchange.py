"""What has to happen when an answer is out: in the scope of its HTTP request, for whoever works for that request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ninfer_core.serving.asgi import Scope

_KEY = "ninfer.exchange_end"


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


def exchange_end(scope: Mapping[str, object]) -> ExchangeEnd | None:
    """Of the HTTP request with this scope; None outside of a block of `exchange_scope`."""
    end = scope.get(_KEY)
    assert isinstance(end, ExchangeEnd | None)
    return end


@contextmanager
def exchange_scope(scope: Scope) -> Iterator[None]:
    """The exchange that this block is. It ends with the block."""
    end = scope[_KEY] = ExchangeEnd()
    try:
        yield
    finally:
        end.run()
