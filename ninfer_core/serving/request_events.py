"""The events of each request on their way from the engine to whoever reads them.

Text that nobody has read yet is kept in pieces and joined when it is read, so a slow reader holds back at most its
own answer, and never the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ninfer_core.api.errors import (
    ContextLengthExceeded,
    ErrorCategory,
    GenerationFailed,
    InvalidPrompt,
    ModelNotFound,
    RequestCancelled,
    RequestError,
    RequestQueueTimeout,
    RequestTooLarge,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.api.request import Channel
from ninfer_core.api.service import Finished, GenerationEvent, TextDelta
from ninfer_core.engine.messages import EngineMessage, Event, Failed

_CATEGORIES: Mapping[str, ErrorCategory] = {
    kind.code: kind.category
    for kind in (
        RequestError,
        InvalidPrompt,
        ContextLengthExceeded,
        ModelNotFound,
        RequestTooLarge,
        ServerOverloaded,
        RequestQueueTimeout,
        ServiceUnavailable,
        RequestCancelled,
        GenerationFailed,
    )
}


def reported_error(failed: Failed) -> RequestError:
    """The error that the engine reported, with the category that belongs to its code."""
    error = RequestError(failed.message, code=failed.code)
    error.category = _CATEGORIES.get(failed.code, ErrorCategory.INTERNAL)
    if failed.code == ContextLengthExceeded.code:
        error.param = "messages"
    return error


@dataclass(slots=True)
class _Text:
    channel: Channel
    pieces: list[str] = field(default_factory=list)


class RequestEvents:
    """One request's events, read by one reader. `on_end` is called once, when no more will come."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._pending: deque[GenerationEvent | _Text] = deque()
        self._error: RequestError | None = None
        self._arrived = asyncio.Event()
        self._on_end = on_end
        self.ended = False

    def push(self, event: GenerationEvent) -> None:
        if self.ended:
            return
        if isinstance(event, TextDelta):
            self._push_text(event)
        else:
            self._pending.append(event)
        if isinstance(event, Finished):
            self._end()
        self._arrived.set()

    def fail(self, error: RequestError) -> None:
        """What was pushed before is still read, then the error is raised."""
        if not self.ended:
            self._error = error
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
        return TextDelta(channel=event.channel, text="".join(event.pieces)) if isinstance(event, _Text) else event

    def _push_text(self, delta: TextDelta) -> None:
        last = self._pending[-1] if self._pending else None
        if not isinstance(last, _Text) or last.channel != delta.channel:
            last = _Text(delta.channel)
            self._pending.append(last)
        last.pieces.append(delta.text)

    def _end(self) -> None:
        self.ended = True
        self._on_end()


class EventTable:
    """Takes the engine's messages apart by request. Belongs to one event loop."""

    def __init__(self) -> None:
        self._open: dict[int, RequestEvents] = {}

    def open(self, request_id: int, on_end: Callable[[], None]) -> RequestEvents:
        def forget() -> None:
            del self._open[request_id]
            on_end()

        events = RequestEvents(forget)
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
