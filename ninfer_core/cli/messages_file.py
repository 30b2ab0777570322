"""A conversation from a JSON file: an array of messages, or an object with `messages`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ninfer_core.api.request import Message, Role, TextPart, ToolCall
from ninfer_core.cli.input_file import read_input
from ninfer_core.cli.json_file import naming_file


class _Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str | dict[str, Any]


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    function: _Function
    id: str | None = None
    type: str = "function"


class _Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: Role
    content: str | list[_Text] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] = []
    tool_call_id: str | None = None


class _Conversation(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[_Turn]


def read_messages(path: Path) -> tuple[Message, ...]:
    """Raises a click.BadParameter that says where the file is wrong. Unknown fields are errors here: a person wrote
    them for a reason."""
    document = read_input(path, "--messages")
    with naming_file(path, "--messages"):
        opening = document.lstrip()[:1]
        turns = (
            msgspec.json.decode(document, type=list[_Turn])
            if opening == b"["
            else msgspec.json.decode(document, type=_Conversation).messages
        )
        return tuple(_message(turn) for turn in turns)


def _message(turn: _Turn) -> Message:
    texts = [turn.content] if isinstance(turn.content, str) else [part.text for part in turn.content or ()]
    return Message(
        role=turn.role,
        content=tuple(TextPart(text) for text in texts if text),
        reasoning=turn.reasoning_content,
        tool_calls=tuple(_tool_call(call) for call in turn.tool_calls),
        call_id=turn.tool_call_id,
    )


def _tool_call(call: _Call) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        arguments = msgspec.json.decode(arguments, type=dict[str, Any])
    return ToolCall(name=call.function.name, arguments=arguments, call_id=call.id)
