"""What the engine tells of its requests: in order, each request's end once, and nothing before it is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ninfer_core.api.errors import RequestError
from ninfer_core.api.service import Admitted, Finished, GenerationEvent, Progress
from ninfer_core.engine.messages import EngineMessage, Event, failed
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.session import Ending, SessionStep

Publish = Callable[[EngineMessage], None]
"""Takes one message; called from the engine thread and, for refusals, from whichever thread posts."""

Outcome = Admitted | Progress | SessionStep | Ending | RequestError
"""What a boundary has to tell of one request. An Ending by itself is that of a request that wanted no output."""


class Publication:
    """Belongs to the engine's thread. What is committed is kept until `publish_visible`, so that the device can be
    given its next unit first."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._visible: list[tuple[RequestRecord, Outcome]] = []
        self._unanswered: dict[int, None] = {}

    @property
    def unanswered(self) -> list[int]:
        """Every request that was taken in and whose last message has not been published, in the order they came."""
        return list(self._unanswered)

    def expect(self, request_ids: Iterable[int]) -> None:
        """These requests have been taken in: each is owed a last message."""
        self._unanswered.update(dict.fromkeys(request_ids))

    def commit(self, outcomes: Iterable[tuple[RequestRecord, Outcome]]) -> None:
        """May be seen from here on."""
        self._visible += outcomes

    def publish_visible(self) -> None:
        """Publish everything that has been committed."""
        visible, self._visible = self._visible, []
        for record, outcome in visible:
            self._tell(record, outcome)

    def failed(self, request_id: int, error: RequestError) -> None:
        """The last message of a request whose row, if it had one, is given back. Nothing of it may still be kept."""
        self._last(request_id, failed(request_id, error))

    def give_up(self, request_ids: Iterable[int], error: RequestError) -> None:
        """The end of all that are unanswered, and of `request_ids`, which nobody has looked at yet."""
        for request_id in [*self._unanswered, *request_ids]:
            self._publish(failed(request_id, error))
        self._unanswered.clear()

    def _tell(self, record: RequestRecord, outcome: Outcome) -> None:
        match outcome:
            case Admitted() | Progress():
                self._event(record, outcome)
            case SessionStep():
                for delta in outcome.deltas:
                    self._event(record, msgspec.structs.replace(delta, live=record.live_timings()))
                if outcome.ending is not None:
                    self._finished(record, outcome.ending)
            case Ending():
                self._finished(record, outcome)
            case _:
                self.failed(record.request_id, outcome)

    def _finished(self, record: RequestRecord, ending: Ending) -> None:
        end = Finished(
            reason=ending.reason,
            stop_string=ending.stop_string,
            usage=record.usage(),
            timings=record.timings(),
            speculation=record.drafts.total(),
        )
        self._last(record.request_id, Event(request_id=record.request_id, event=end))

    def _event(self, record: RequestRecord, event: GenerationEvent) -> None:
        self._publish(Event(request_id=record.request_id, event=event))

    def _last(self, request_id: int, message: EngineMessage) -> None:
        self._publish(message)
        del self._unanswered[request_id]
