"""The engine's bounded, thread-safe letter box.

It holds at most one Submit and one Cancel for each of `capacity` open requests, and the latest Shutdown, so it
needs no other bound. A request is open from its Submit until the engine has released it.
"""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum

from ninfer_core.engine.messages import Cancel, FrontMessage, Shutdown, Submit


class Refusal(Enum):
    """Why a Submit was not taken."""

    OVERLOADED = "overloaded"
    CLOSED = "closed"


class Inbox:
    __slots__ = ("_cancelled", "_capacity", "_changed", "_closed", "_messages", "_open", "_shutdown")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changed = threading.Condition()
        self._messages: deque[Submit | Cancel] = deque()
        self._open: set[int] = set()
        self._cancelled: set[int] = set()
        self._shutdown: Shutdown | None = None
        self._closed = False

    def submit(self, message: Submit) -> Refusal | None:
        """Take a request in, or say why not. Raises ValueError for an id that is open already."""
        with self._changed:
            if message.request_id in self._open:
                raise ValueError(f"request id {message.request_id} is in use")
            if self._closed:
                return Refusal.CLOSED
            if len(self._open) >= self._capacity:
                return Refusal.OVERLOADED
            self._open.add(message.request_id)
            self._messages.append(message)
            self._changed.notify()
            return None

    def cancel(self, message: Cancel) -> None:
        """Ids that are unknown, released or cancelled already are ignored."""
        with self._changed:
            if message.request_id in self._open and message.request_id not in self._cancelled:
                self._cancelled.add(message.request_id)
                self._messages.append(message)
                self._changed.notify()

    def shut_down(self, message: Shutdown) -> None:
        """Refuse further requests and let the engine know. A drain can be cut short, never resumed."""
        with self._changed:
            self._closed = True
            if self._shutdown is None or self._shutdown.drain:
                self._shutdown = message
            self._changed.notify()

    def close(self) -> None:
        """The engine has ended: refuse everything from now on."""
        with self._changed:
            self._closed = True

    def take(self, *, wait: bool, timeout_seconds: float | None = None) -> list[FrontMessage]:
        """All messages in their order, the Shutdown last and on every call once it has come. With `wait`, blocks until
        there is one, for `timeout_seconds` at most."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._messages or self._shutdown is not None, timeout_seconds)
            messages: list[FrontMessage] = list(self._messages)
            self._messages.clear()
            if self._shutdown is not None:
                messages.append(self._shutdown)
            return messages

    def release(self, request_id: int) -> None:
        """The request has ended; its id and its place are free again."""
        with self._changed:
            self._open.discard(request_id)
            self._cancelled.discard(request_id)
