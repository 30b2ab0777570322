"""The engine's way out: messages to the front, sent from a thread of their own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable

from ninfer_core.api.errors import GenerationFailed
from ninfer_core.engine.messages import EngineMessage, Event, failed
from ninfer_core.engine.wire import encode_frame
from ninfer_core.telemetry import create_log

GRACE_SECONDS = 5.0
"""How long the engine may take to stop once nobody listens; a unit of work lasts far less."""


class Publisher:
    """Sends messages from a thread of its own, so that a front that is slow to read does not hold a round up.

    What waits to be sent is bounded by `capacity` messages: beyond, `publish` waits for the front after all.
    When nothing can be sent any more, the connection is ended, which ends the reader and so the engine.
    """

    def __init__(self, connection: socket.socket, capacity: int = 65_536) -> None:
        self._connection = connection
        self._capacity = capacity
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ninfer-publisher", daemon=True)
        self.log = create_log()
        self.on_unsendable: Callable[[int], None] = lambda request_id: None
        """Called with a request whose event cannot be sent: the front has been told that it failed."""
        self._thread.start()

    def publish(self, message: EngineMessage) -> None:
        """Thread-safe. Once the front is gone, messages are dropped. Raises what keeps a message from being encoded
        that is no event of a request."""
        frame = self._frame(message)
        with self._changed:
            while len(self._waiting) >= self._capacity and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._waiting.append(frame)
                self._changed.notify_all()

    def close(self) -> None:
        """Send what waits, for at most the grace time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(GRACE_SECONDS)

    def end_connection(self) -> None:
        """Nothing is sent or read any more: whoever waits in a read gets its end."""
        with contextlib.suppress(OSError):  # the front may have been faster
            self._connection.shutdown(socket.SHUT_RDWR)

    def _frame(self, message: EngineMessage) -> bytes:
        """A request whose text cannot be sent, such as a lone surrogate of a family's decoder, fails alone."""
        try:
            return encode_frame(message)
        except Exception as error:
            if not isinstance(message, Event):
                raise
            self.log.error("event_unsendable", request_id=message.request_id, exc_info=error)
            self.on_unsendable(message.request_id)
            failure = GenerationFailed(
                f"the answer could not be sent ({type(error).__name__}); the server's log says where"
            )
            return encode_frame(failed(message.request_id, failure))

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._connection.sendall(b"".join(batch))
        except Exception as error:
            if not isinstance(error, OSError):  # which is a front that has gone
                self.log.critical("publisher_failed", exc_info=error)
            with self._changed:
                self._closed = True
                self._waiting.clear()
                self._changed.notify_all()
            self.end_connection()

    def _next_batch(self) -> list[bytes]:
        """Everything that waits; empty when nothing will come any more."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            batch = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return batch
