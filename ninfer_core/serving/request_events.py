"""The events of each request on their way from the engine to whoever reads them.

Text that nobody has read yet is kept in pieces and joined when it is read, so a slow reader holds back at most its
own answer, and never the engine.
"""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ninfer_core.api.errors import ClientTooSlow, RequestError, ServiceUnavailable
from ninfer_core.api.request import Channel
from ninfer_core.api.service import Finished, GenerationEvent, LiveTimings, Progress, TextDelta
from ninfer_core.engine.messages import EngineMessage, Event, Failed


def reported_error(failed: Failed) -> RequestError:
    """The error that the engine reported."""
    error = RequestError(failed.message, code=failed.code, param=failed.param)
    error.category = failed.category
    return error


MAX_UNREAD_CHARACTERS = 4 * 2**20
"""Text kept for one reader. A reader that takes nothing at all is given up long before a model has written this."""


@dataclass(slots=True)
class _Text:
    channel: Channel
    buffer: io.StringIO = field(default_factory=io.StringIO)
    live: LiveTimings | None = None


class RequestEvents:
    """One request's events, read by one reader. `on_end` is called once, when no more will come; `on_overflow` when
    the reader has left too much unread: it gets ClientTooSlow, and whatever still comes is dropped."""

    def __init__(
        self,
        on_end: Callable[[], None],
        on_overflow: Callable[[], None],
        max_unread_characters: int = MAX_UNREAD_CHARACTERS,
    ) -> None:
        self._pending: deque[GenerationEvent | _Text] = deque()
        self._error: RequestError | None = None
        self._arrived = asyncio.Event()
        self._on_end = on_end
        self._on_overflow = on_overflow
        self._max_unread_characters = max_unread_characters
        self._unread_characters = 0
        self.ended = False

    def push(self, event: GenerationEvent) -> None:
        if self.ended:
            return
        if self._error is None:
            self._keep(event)
        if isinstance(event, Finished):
            self._end()
        self._arrived.set()

    def fail(self, error: RequestError) -> None:
        """What was pushed before is still read, then the error is raised."""
        if not self.ended:
            self._error = self._error or error
            self._end()
            self._arrived.set()

    async def next(self) -> GenerationEvent | None:
        """The next event, None after the last one. Raises the error that ended the request."""
        while not self._pending:
            if self._error is not None:
                raise self._error
            if self.ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        event = self._pending.popleft()
        if not isinstance(event, _Text):
            return event
        text = event.buffer.getvalue()
        self._unread_characters -= len(text)
        return TextDelta(channel=event.channel, text=text, live=event.live)

    def _keep(self, event: GenerationEvent) -> None:
        if not isinstance(event, TextDelta):
            if isinstance(event, Progress) and self._pending and isinstance(self._pending[-1], Progress):
                self._pending.pop()  # the later one says it all
            self._pending.append(event)
            return
        self._push_text(event)
        self._unread_characters += len(event.text)
        if self._unread_characters > self._max_unread_characters:
            self._error = ClientTooSlow(unread_characters=self._unread_characters)
            self._pending.clear()
            self._on_overflow()

    def _push_text(self, delta: TextDelta) -> None:
        last = self._pending[-1] if self._pending else None
        if not isinstance(last, _Text) or last.channel != delta.channel:
            last = _Text(delta.channel)
            self._pending.append(last)
        last.buffer.write(delta.text)
        last.live = delta.live

    def _end(self) -> None:
        self.ended = True
        self._on_end()


class EventTable:
    """Takes the engine's messages apart by request. Belongs to one event loop."""

    def __init__(self) -> None:
        self._open: dict[int, RequestEvents] = {}

    def open(self, request_id: int, on_end: Callable[[], None], on_overflow: Callable[[], None]) -> RequestEvents:
        def forget() -> None:
            del self._open[request_id]
            on_end()

        events = RequestEvents(forget, on_overflow)
        self._open[request_id] = events
        return events

    def receive(self, message: EngineMessage) -> None:
        """Deliver an Event or a Failed. What belongs to no open request is ignored."""
        if isinstance(message, Event | Failed):
            events = self._open.get(message.request_id)
            if events is None:
                return
            if isinstance(message, Event):
                events.push(message.event)
            else:
                events.fail(reported_error(message))

    def fail_all(self, reason: str) -> None:
        for events in list(self._open.values()):
            events.fail(ServiceUnavailable(reason))
