"""Items -> the neutral conversation (contract RESP-33 to 37).

What the assistant said in one go is one turn: reasoning, then content, then calls. Results follow in the order in
which the calls were made, however the client ordered them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ninfer_core.api import MediaPart, Message, Part, RequestError, TextPart, ToolCall
from ninfer_protocols.openai_responses.items import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputImage,
    InputText,
    InputVideo,
    Item,
    MessageContent,
    MessageItem,
    OutputText,
    ReasoningItem,
    present,
)
from ninfer_protocols.openai_responses.names import FunctionName
from ninfer_protocols.wire.cache_hints import Place


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """`breakpoints` are the parts that the client marked as boundaries for reuse."""

    messages: tuple[Message, ...]
    breakpoints: tuple[Place, ...]


def conversation(instructions: str | None, stored: Sequence[Item], given: Sequence[Item]) -> Conversation:
    """The stored history, then what the request adds, behind its instructions (contract RESP-3, RESP-63).

    Raises RequestError `invalid_assistant_history` and `invalid_tool_history`.
    """
    builder = _Builder()
    if instructions:
        builder.add(Message(role="developer", content=(TextPart(instructions),)))
    for item in stored:
        builder.take(item, "previous_response_id")
    for index, item in enumerate(given):
        builder.take(item, f"input[{index}]")
    builder.close("input")
    return Conversation(messages=tuple(builder.messages), breakpoints=tuple(builder.breakpoints))


@dataclass(slots=True)
class _Turn:
    """The assistant turn that is being put together."""

    reasoning: list[str] = field(default_factory=list)
    content: list[Part] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)
    calls: list[FunctionCallItem] = field(default_factory=list)
    has_reasoning: bool = False
    has_content: bool = False

    def message(self) -> Message:
        return Message(
            role="assistant",
            content=tuple(self.content),
            reasoning="".join(self.reasoning) if self.has_reasoning else None,
            tool_calls=tuple(
                ToolCall(
                    name=_name(call).internal,
                    arguments=msgspec.json.decode(call.arguments),
                    call_id=call.call_id,
                )
                for call in self.calls
            ),
        )


class _Builder:
    """Takes Items in order. Between a turn with calls and what follows it, `_awaited` holds the calls and `_results`
    what has come for them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.breakpoints: list[Place] = []
        self._turn: _Turn | None = None
        self._call_ids: set[str] = set()
        self._awaited: dict[str, FunctionCallItem] = {}
        self._results: dict[str, FunctionCallOutputItem] = {}

    def take(self, item: Item, where: str) -> None:
        if isinstance(item, FunctionCallOutputItem):
            self._end_turn()
            self._take_result(item, where)
            return
        self._end_results(where)
        if isinstance(item, MessageItem) and item.role != "assistant":
            self._end_turn()
            self._end_results(where)
            parts, marked = _parts(item.content)
            self.add(Message(role=item.role, content=parts), marked)
            return
        self._turn = self._turn or _Turn()
        match item:
            case ReasoningItem():
                self._take_reasoning(self._turn, item, where)
            case MessageItem():
                self._take_content(self._turn, item, where)
            case FunctionCallItem():
                self._take_call(self._turn, item, where)

    def add(self, message: Message, marked: Sequence[int] = ()) -> None:
        self.breakpoints += [(len(self.messages), part) for part in marked]
        self.messages.append(message)

    def close(self, where: str) -> None:
        self._end_turn()
        self._end_results(where, happens="ends")

    def _take_reasoning(self, turn: _Turn, item: ReasoningItem, where: str) -> None:
        if turn.has_content or turn.calls:
            raise _misplaced(where, "reasoning", "after the content or the calls of its turn")
        turn.has_reasoning = True
        turn.reasoning += [part.text for part in item.content]

    def _take_content(self, turn: _Turn, item: MessageItem, where: str) -> None:
        if turn.calls:
            raise _misplaced(where, "an assistant message", "after the calls of its turn")
        turn.has_content = True
        parts, marked = _parts(item.content)
        turn.marked += [len(turn.content) + place for place in marked]
        turn.content += parts

    def _take_call(self, turn: _Turn, item: FunctionCallItem, where: str) -> None:
        if item.call_id in self._call_ids:
            raise _tool_problem(where, f"call_id '{item.call_id[:80]}' has been used by an earlier call")
        self._call_ids.add(item.call_id)
        turn.calls.append(item)

    def _take_result(self, item: FunctionCallOutputItem, where: str) -> None:
        call = self._awaited.get(item.call_id)
        if call is None:
            known = ", ".join(list(self._awaited)[:8]) or "none"
            raise _tool_problem(
                where, f"is for '{item.call_id[:80]}', and the calls of the turn before it are: {known}"
            )
        if item.call_id in self._results:
            raise _tool_problem(where, f"is a second result for '{item.call_id[:80]}'")
        name, namespace = present(item.name), present(item.namespace)
        if name not in (None, call.name) or namespace not in (None, present(call.namespace)):
            raise _tool_problem(where, f"names another function than the call '{item.call_id[:80]}'")
        self._results[item.call_id] = item

    def _end_turn(self) -> None:
        if self._turn is not None:
            turn, self._turn = self._turn, None
            self.add(turn.message(), turn.marked)
            self._awaited = {call.call_id: call for call in turn.calls}

    def _end_results(self, where: str, *, happens: str = "comes") -> None:
        """Whatever comes next needs a result for every call: the model's prompt has no place for a later one."""
        awaited, self._awaited = self._awaited, {}
        results, self._results = self._results, {}
        if missing := [call_id for call_id in awaited if call_id not in results]:
            calls = ", ".join(missing[:8])
            raise _tool_problem(where, f"{happens} before a result for: {calls}; send one for each call")
        for call_id in awaited:
            parts, marked = _output_parts(results[call_id])
            self.add(Message(role="tool", content=parts, call_id=call_id), marked)


def _name(call: FunctionCallItem) -> FunctionName:
    return FunctionName(present(call.namespace), call.name)


def _parts(content: Sequence[MessageContent]) -> tuple[tuple[Part, ...], list[int]]:
    """Neutral parts, and which of them end at a breakpoint."""
    marked = [
        index
        for index, part in enumerate(content)
        if isinstance(part, InputText | InputImage) and part.prompt_cache_breakpoint is not msgspec.UNSET
    ]
    return tuple(_part(part) for part in content), marked


def _part(part: MessageContent) -> Part:
    match part:
        case InputText() | OutputText():
            return TextPart(part.text)
        case InputImage():
            return MediaPart(modality="image", source=part.image_url)
        case InputVideo():
            return MediaPart(modality="video", source=part.video_url)
    return TextPart(part.refusal)


def _output_parts(item: FunctionCallOutputItem) -> tuple[tuple[Part, ...], list[int]]:
    if isinstance(item.output, str):
        return ((TextPart(item.output),) if item.output else ()), []
    return _parts(item.output)


def _misplaced(where: str, what: str, place: str) -> RequestError:
    return RequestError(
        f"{where}: {what} comes {place}; a turn is reasoning, then content, then calls",
        code="invalid_assistant_history",
        param=where,
    )


def _tool_problem(where: str, problem: str) -> RequestError:
    return RequestError(f"{where}: {problem}", code="invalid_tool_history", param=where)


def has_user_query(items: Sequence[Any]) -> bool:
    """Whether somebody has asked something (contract RESP-2)."""
    return any(isinstance(item, MessageItem) and item.role == "user" for item in items)
