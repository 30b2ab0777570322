"""One generation -> its whole answer, or its stream; stored before a client can ask for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from ninfer_core.api import Admitted, Finished, Generation, NinferError, TextDelta, ToolCallDelta
from ninfer_protocols.openai_responses.lowering import ResponseCall
from ninfer_protocols.openai_responses.output import OutputEvent, OutputWriter
from ninfer_protocols.openai_responses.responses import TERMINAL_STATUS, ResponseObject
from ninfer_protocols.openai_responses.store import ResponseStore, Segment, StoredResponse, encode_items
from ninfer_protocols.wire.sse import event_frame


class Answer:
    """Follows one generation to its end."""

    def __init__(self, call: ResponseCall, generation: Generation, model_id: str, store: ResponseStore) -> None:
        self._call = call
        self._generation = generation
        self._store = store
        self._resolved = generation.resolved
        self._object = ResponseObject(call, model_id, self._resolved)
        self._output = OutputWriter(call.tools, include_encrypted=call.include_encrypted)
        self._sequence_number = 0
        self._begun = False

    async def whole(self) -> bytes:
        """The terminal object as JSON."""
        async for event in self._generation:
            if isinstance(event, Finished):
                self._output.close(TERMINAL_STATUS[event.reason])
                return self._finish(event)
            self._events(event)
        raise AssertionError("a generation that raises nothing ends with Finished")

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The first is ready once the request is admitted: until then an error is an ordinary one."""
        async for event in self._generation:
            if isinstance(event, Admitted):
                for frame in self._begin():
                    yield frame
            elif isinstance(event, Finished):
                for each in self._output.close(TERMINAL_STATUS[event.reason]):
                    yield self._frame(*each)
                terminal = msgspec.Raw(self._finish(event))
                yield self._frame(f"response.{TERMINAL_STATUS[event.reason]}", {"response": terminal})
            else:
                for each in self._events(event):
                    yield self._frame(*each)

    def failure(self, error: NinferError) -> bytes:
        """The one terminal event of a stream that breaks off (contract RESP-51)."""
        begin = [] if self._begun else self._begin()
        failed = {"response": self._object.failed(error, self._output.items())}
        return b"".join([*begin, self._frame("response.failed", failed)])

    def _events(self, event: object) -> list[OutputEvent]:
        match event:
            case TextDelta():
                return self._output.text(event.channel, event.text)
            case ToolCallDelta():
                return self._output.call(event)
        return []

    def _begin(self) -> list[bytes]:
        self._begun = True
        snapshot = {"response": self._object.in_progress()}
        return [self._frame("response.created", snapshot), self._frame("response.in_progress", snapshot)]

    def _finish(self, event: Finished) -> bytes:
        """Encode the terminal object, and store it where the request says so."""
        items = self._output.items()
        encoded = msgspec.json.encode(self._object.finished(event.reason, items, event.usage))
        if self._call.store:
            assert self._call.session_key is not None, "what is stored has a session"
            self._store.put(
                StoredResponse(
                    id=self._call.id,
                    response_json=encoded,
                    segment=Segment(self._call.parent, self._call.input_json, encode_items(items)),
                    preserve_thinking=self._resolved.preserve_thinking,
                    session_key=self._call.session_key,
                )
            )
        return encoded

    def _frame(self, kind: str, fields: dict[str, Any]) -> bytes:
        number = self._sequence_number
        self._sequence_number += 1
        return event_frame(kind, {"type": kind, "sequence_number": number, **fields})
