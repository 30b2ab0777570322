"""What the model says -> output Items and the events that announce them (contract RESP-49, RESP-57 to 61).

One writer serves streams and whole answers, so that deltas and Items cannot differ.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from ninfer_core.api import Channel, ToolCallDelta
from ninfer_protocols.openai_responses.items import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    optional,
)
from ninfer_protocols.openai_responses.tools import ToolSet
from ninfer_protocols.wire.identifiers import response_resource_id, tool_call_id


class OutputEvent(NamedTuple):
    """`fields` without `type` and `sequence_number`."""

    type: str
    fields: dict[str, Any]


@dataclass(slots=True)
class _OpenItem:
    """An Item whose text is still coming."""

    channel: Channel
    id: str
    output_index: int
    encrypted_content: str | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def text_event(self) -> str:
        return "response.reasoning_text" if self.channel == "reasoning" else "response.output_text"

    def part(self, text: str) -> ReasoningText | OutputText:
        return ReasoningText(text) if self.channel == "reasoning" else OutputText(text)

    def item(self, status: ItemStatus, *parts: ReasoningText | OutputText) -> ReasoningItem | MessageItem:
        if self.channel == "reasoning":
            return ReasoningItem(
                id=self.id,
                content=tuple(part for part in parts if isinstance(part, ReasoningText)),
                encrypted_content=optional(self.encrypted_content),
                status=status,
            )
        return MessageItem(
            id=self.id,
            role="assistant",
            content=tuple(part for part in parts if isinstance(part, OutputText)),
            status=status,
        )

    def finished(self, status: ItemStatus) -> ReasoningItem | MessageItem:
        return self.item(status, self.part("".join(self.pieces)))


class OutputWriter:
    """Turns the generation's events into those of the wire, and keeps the Items."""

    def __init__(self, tools: ToolSet, *, include_encrypted: bool) -> None:
        self._tools = tools
        self._include_encrypted = include_encrypted
        self._finished: list[OutputItem] = []
        self._open: _OpenItem | None = None

    def text(self, channel: Channel, text: str) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        if self._open is not None and self._open.channel != channel:
            events += self.close("completed")
        if self._open is None:
            events += self._begin(channel)
        assert self._open is not None
        self._open.pieces.append(text)
        events.append(self._text_event(self._open, "delta", delta=text))
        return events

    def call(self, delta: ToolCallDelta) -> list[OutputEvent]:
        """A call comes whole."""
        events = self.close("completed")
        name = self._tools.name(delta.name)
        item = FunctionCallItem(
            id=response_resource_id("fc"),
            call_id=tool_call_id(),
            name=name.name,
            namespace=optional(name.namespace),
            arguments=json.dumps(delta.arguments, ensure_ascii=False, allow_nan=False),
        )
        output_index = len(self._finished)
        place = {"item_id": item.id, "output_index": output_index}
        announced = msgspec.structs.replace(item, arguments="", status="in_progress")
        events += [
            _item_event("added", output_index, announced),
            OutputEvent("response.function_call_arguments.delta", {**place, "delta": item.arguments}),
            OutputEvent("response.function_call_arguments.done", {**place, "arguments": item.arguments}),
            _item_event("done", output_index, item),
        ]
        self._finished.append(item)
        return events

    def close(self, status: ItemStatus) -> list[OutputEvent]:
        """End the Item that is open, if one is."""
        if self._open is None:
            return []
        closed, self._open = self._open, None
        item = closed.finished(status)
        self._finished.append(item)
        text = "".join(closed.pieces)
        return [
            self._text_event(closed, "done", text=text),
            _part_event("done", closed, text),
            _item_event("done", closed.output_index, item),
        ]

    def items(self) -> list[OutputItem]:
        """All so far; one that is still open is incomplete."""
        return [*self._finished, *([] if self._open is None else [self._open.finished("incomplete")])]

    def _begin(self, channel: Channel) -> list[OutputEvent]:
        thinks = channel == "reasoning"
        self._open = _OpenItem(
            channel=channel,
            id=response_resource_id("rs" if thinks else "msg"),
            output_index=len(self._finished),
            # Clients only carry it about: there is nothing in it (decision 13).
            encrypted_content=secrets.token_urlsafe(32) if thinks and self._include_encrypted else None,
        )
        return [
            _item_event("added", self._open.output_index, self._open.item("in_progress")),
            _part_event("added", self._open, ""),
        ]

    def _text_event(self, item: _OpenItem, kind: str, **fields: Any) -> OutputEvent:
        logprobs = {} if item.channel == "reasoning" else {"logprobs": ()}
        place = {"item_id": item.id, "output_index": item.output_index, "content_index": 0}
        return OutputEvent(f"{item.text_event}.{kind}", place | fields | logprobs)


def _item_event(kind: str, output_index: int, item: OutputItem) -> OutputEvent:
    return OutputEvent(f"response.output_item.{kind}", {"output_index": output_index, "item": item})


def _part_event(kind: str, item: _OpenItem, text: str) -> OutputEvent:
    return OutputEvent(
        f"response.content_part.{kind}",
        {"item_id": item.id, "output_index": item.output_index, "content_index": 0, "part": item.part(text)},
    )
