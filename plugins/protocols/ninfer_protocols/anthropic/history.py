"""System text and messages -> neutral messages: turns joined, results matched to their calls, prefill recognised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ninfer_core.api import InvalidPrompt, MediaPart, Message, RequestError, TextPart, ToolCall
from ninfer_protocols.anthropic.blocks import Block, Thinking, ToolResult, read_blocks
from ninfer_protocols.anthropic.cache import CacheMarks
from ninfer_protocols.anthropic.requests import TurnMessage
from ninfer_protocols.wire.errors import invalid_value

ATTRIBUTION = "x-anthropic-billing-header:"
"""Start of the first system block of an agent that names itself there, differently with every request."""

_ROLES = ("user", "assistant", "system")


class History(msgspec.Struct, frozen=True, kw_only=True):
    """`prefill` says that the last message is the beginning of the answer (contract ANTH-3)."""

    messages: tuple[Message, ...]
    prefill: bool


@dataclass(slots=True)
class _Turn:
    """Messages of one role in a row; `where` is the first of them."""

    role: str
    where: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolCall]:
        return [block.value for block in self.blocks if isinstance(block.value, ToolCall)]

    @property
    def results(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block.value, ToolResult)]


def lower_history(
    system: str | list[dict[str, Any]] | None, messages: Sequence[TurnMessage], marks: CacheMarks
) -> History:
    """Tells `marks` every cacheable block in the order of the prompt. Raises RequestError with the block's path."""
    if not messages:
        raise InvalidPrompt("messages: there is none; send at least one user message", param="messages")
    turns = _turns(messages)
    _check_system_places(turns)
    _check_results(turns)
    prefill = turns[-1].role == "assistant"
    if prefill:
        _check_prefill(turns[-1])
    writer = _Writer(marks)
    writer.plain("system", _system_blocks(system), keep_empty=False)
    for index, turn in enumerate(turns):
        match turn.role:
            case "assistant":
                writer.assistant(turn)
            case "user":
                writer.user(turn, _declared(turns, index))
            case _:
                writer.plain("system", turn.blocks)
    return History(messages=tuple(writer.messages), prefill=prefill)


def _system_blocks(system: str | list[dict[str, Any]] | None) -> list[Block]:
    """Of an array, the block in which an agent names itself is taken away whole (contract ANTH-5, ANTH-6)."""
    blocks = read_blocks(system or "", "system", "system")
    if isinstance(system, list) and blocks:
        first = blocks[0].value
        if isinstance(first, TextPart) and first.text.startswith(ATTRIBUTION):
            return blocks[1:]
    return blocks


def _turns(messages: Sequence[TurnMessage]) -> list[_Turn]:
    """Joined without a separator (contract ANTH-2); a system message stays a turn of its own."""
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message.role not in _ROLES:
            raise invalid_value(
                f"{where}.role", f"is '{message.role}'; known are {', '.join(_ROLES)}", code="unsupported_role"
            )
        if not turns or turns[-1].role != message.role or message.role == "system":
            turns.append(_Turn(message.role, where))
        turns[-1].blocks += read_blocks(message.content, message.role, f"{where}.content")
    return turns


def _check_system_places(turns: Sequence[_Turn]) -> None:
    """Contract IMPL-12."""
    roles = [turn.role for turn in turns]
    for index, turn in enumerate(turns):
        if turn.role != "system":
            continue
        after_user = index > 0 and roles[index - 1] == "user"
        if not after_user or roles[index + 1 : index + 2] not in ([], ["assistant"]):
            raise RequestError(
                f"{turn.where}: a system message must come after a user message, and be the last one or come before an "
                "assistant message; what holds from the beginning belongs into 'system'",
                code="invalid_message_order",
                param=turn.where,
            )


def _declared(turns: Sequence[_Turn], index: int) -> list[ToolCall]:
    """Calls that the user turn at `index` has to answer."""
    return turns[index - 1].calls if index and turns[index - 1].role == "assistant" else []


def _check_results(turns: Sequence[_Turn]) -> None:
    """Contract ANTH-19, ANTH-20, IMPL-13."""
    first_user = next((index for index, turn in enumerate(turns) if turn.role == "user"), None)
    for index, turn in enumerate(turns):
        if turn.role != "user":
            continue
        declared = [call.call_id for call in _declared(turns, index)]
        if len(set(declared)) != len(declared):
            raise _invalid_results(turns[index - 1].where, "two tool_use blocks of one turn have the same id")
        given = [block.value.tool_use_id for block in turn.results if isinstance(block.value, ToolResult)]
        _check_leading(turn)
        if len(set(given)) != len(given):
            raise _invalid_results(turn.where, "has two results for one tool_use_id; send one for each call")
        if index == first_user and not declared:
            continue
        if missing := [name for name in declared if name not in given]:
            raise _invalid_results(turn.where, f"lacks a tool_result for {', '.join(map(str, missing))}")
        if unknown := [name for name in given if name not in declared]:
            raise _invalid_results(
                turn.where, f"has a tool_result for {', '.join(unknown)}, which the turn before does not call"
            )


def _check_leading(turn: _Turn) -> None:
    for block in turn.blocks[len(turn.results) :]:
        if isinstance(block.value, ToolResult):
            raise _invalid_results(block.where, "must come before the text and images of its turn")


def _invalid_results(where: str, reason: str) -> RequestError:
    return invalid_value(where, reason, code="invalid_tool_history")


def _check_prefill(turn: _Turn) -> None:
    """Contract ANTH-4."""
    for block in turn.blocks:
        if not isinstance(block.value, TextPart):
            raise invalid_value(
                block.where,
                "a last assistant message is the beginning of the answer and can only have text",
                code="assistant_prefill_not_supported",
            )


class _Writer:
    """Writes neutral messages, and tells where in them each cacheable block ends."""

    def __init__(self, marks: CacheMarks) -> None:
        self.messages: list[Message] = []
        self._marks = marks

    def plain(self, role: Any, blocks: Sequence[Block], *, keep_empty: bool = True) -> None:
        """A turn of text and media only."""
        if blocks or keep_empty:
            self.messages.append(Message(role=role, content=self._content(blocks)))

    def user(self, turn: _Turn, declared: Sequence[ToolCall]) -> None:
        """Results in the order of their calls, each a turn of its own, then what the user said.

        Results whose calls are lost follow an empty question: templates need one, and open no turn for a result that
        is the first message.
        """
        results = turn.results
        if results and not declared:
            self.messages.append(Message(role="user"))
        if declared:
            order = {call.call_id: place for place, call in enumerate(declared)}
            results.sort(key=lambda block: order[block.value.tool_use_id] if isinstance(block.value, ToolResult) else 0)
        for block in results:
            self._result(block)
        self.plain("user", turn.blocks[len(results) :], keep_empty=not results)

    def assistant(self, turn: _Turn) -> None:
        thoughts = "".join(block.value.text for block in turn.blocks if isinstance(block.value, Thinking))
        index = len(self.messages)
        content = self._content([block for block in turn.blocks if isinstance(block.value, TextPart | MediaPart)])
        calls = [block for block in turn.blocks if isinstance(block.value, ToolCall)]
        if calls:
            # Only the end of the last call is the end of something in the prompt (contract ANTH-46).
            self._marks.block((index, None), calls[-1].ttl, calls[-1].where)
        self.messages.append(
            Message(role="assistant", content=content, reasoning=thoughts or None, tool_calls=tuple(turn.calls))
        )

    def _content(self, blocks: Sequence[Block]) -> tuple[TextPart | MediaPart, ...]:
        for part, block in enumerate(blocks):
            self._marks.block((len(self.messages), part), block.ttl, block.where)
        return tuple(block.value for block in blocks if isinstance(block.value, TextPart | MediaPart))

    def _result(self, block: Block) -> None:
        result = block.value
        assert isinstance(result, ToolResult)
        index, last = len(self.messages), len(result.parts) - 1
        for part, ttl in enumerate(result.ttls):
            self._marks.block((index, part), ttl, block.where)
        self._marks.block((index, last if result.parts else None), block.ttl, block.where)
        self.messages.append(Message(role="tool", content=result.parts, call_id=result.tool_use_id))
