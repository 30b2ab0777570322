"""A generation -> the events of a streamed answer, in the order of contract ANTH-44."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Literal

import msgspec

from ninfer_core.api import Admitted, Channel, Finished, Generation, TextDelta, ToolCallDelta
from ninfer_protocols.anthropic.answers import (
    MessageIdentity,
    admitted_usage,
    ending,
    message_object,
    tool_use_block,
    usage_object,
)
from ninfer_protocols.wire.sse import KEEP_ALIVE, event_frame

PING = event_frame("ping", {"type": "ping"})
KEEP_ALIVE_WITH_PING = KEEP_ALIVE + PING
"""For clients whose stall timer does not see comments (decision 14)."""

EventName = Literal[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
]


async def stream_frames(generation: Generation, identity: MessageIdentity) -> AsyncGenerator[bytes, None]:
    """Frames of one answer. The first is ready once the request is admitted, not when its prompt is processed."""
    events = _EventWriter(identity)
    async for event in generation:
        match event:
            case Admitted():
                yield events.admitted(event)
            case TextDelta():
                for frame in events.text(event):
                    yield frame
            case ToolCallDelta():
                for frame in events.call(event):
                    yield frame
            case Finished():
                for frame in events.finished(event):
                    yield frame


class _EventWriter:
    """Knows which block is open, and how many there have been."""

    def __init__(self, identity: MessageIdentity) -> None:
        self._identity = identity
        self._open: Channel | None = None
        self._index = 0
        self._called = False

    def admitted(self, event: Admitted) -> bytes:
        return _frame("message_start", message=message_object(self._identity, [], admitted_usage(event)))

    def text(self, event: TextDelta) -> Iterator[bytes]:
        field = "thinking" if event.channel == "reasoning" else "text"
        if self._open != event.channel:
            yield from self._close()
            self._open = event.channel
            signature = {"signature": ""} if field == "thinking" else {}
            yield self._block("content_block_start", content_block={"type": field, field: "", **signature})
        yield self._block("content_block_delta", delta={"type": f"{field}_delta", field: event.text})

    def call(self, event: ToolCallDelta) -> Iterator[bytes]:
        yield from self._close()
        self._called = True
        yield self._block("content_block_start", content_block=tool_use_block(event.name))
        arguments = msgspec.json.encode(event.arguments).decode()
        yield self._block("content_block_delta", delta={"type": "input_json_delta", "partial_json": arguments})
        yield from self._stop()

    def finished(self, event: Finished) -> Iterator[bytes]:
        yield from self._close()
        yield _frame("message_delta", delta=ending(event, called=self._called), usage=usage_object(event.usage))
        yield _frame("message_stop")

    def _close(self) -> Iterator[bytes]:
        """The end of the text or thinking that is open; thinking is signed first (contract ANTH-12)."""
        if self._open is None:
            return
        if self._open == "reasoning":
            yield self._block("content_block_delta", delta={"type": "signature_delta", "signature": self._identity.id})
        self._open = None
        yield from self._stop()

    def _stop(self) -> Iterator[bytes]:
        yield self._block("content_block_stop")
        self._index += 1

    def _block(self, name: EventName, **fields: Any) -> bytes:
        return _frame(name, index=self._index, **fields)


def _frame(name: EventName, **fields: Any) -> bytes:
    return event_frame(name, {"type": name, **fields})
