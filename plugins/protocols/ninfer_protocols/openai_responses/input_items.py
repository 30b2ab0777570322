"""The `input` of a request -> canonical Items in the client's order (contract RESP-23 to 40).

Ids that were sent are kept, others are made; no id may stand for two Items of one conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from ninfer_core.api import RequestError
from ninfer_protocols.openai_responses.content import message_content, tool_output
from ninfer_protocols.openai_responses.items import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputText,
    Item,
    ItemStatus,
    MessageItem,
    MessageRole,
    ReasoningItem,
    ReasoningText,
    optional,
)
from ninfer_protocols.openai_responses.names import checked_name
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.identifiers import response_resource_id
from ninfer_protocols.wire.json import convert, decode_object

_ROLES: Mapping[str, MessageRole] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}
_STATUSES: Mapping[str, ItemStatus] = {"incomplete": "incomplete", "in_progress": "in_progress"}


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]]
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class _Reasoning(msgspec.Struct):
    id: str | None = None
    summary: list[dict[str, Any]] | None = None
    content: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None
    status: str | None = None


class _FunctionCall(msgspec.Struct):
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    namespace: str | None = None
    status: str | None = None


class _FunctionCallOutput(msgspec.Struct):
    call_id: str
    output: str | list[dict[str, Any]]
    id: str | None = None
    name: str | None = None
    namespace: str | None = None
    status: str | None = None


class InputReader:
    """Reads one request's input. `taken_ids` belong to the conversation that it continues.

    With `drop_bare_reasoning`, reasoning without its text is left out instead of refused (`--compat codex`).
    """

    def __init__(self, taken_ids: Collection[str], *, drop_bare_reasoning: bool) -> None:
        self._taken_ids = set(taken_ids)
        self._drop_bare_reasoning = drop_bare_reasoning

    def read(self, given: str | list[Any] | None) -> tuple[Item, ...]:
        """Nothing, an empty string and an empty array are no Items. Raises RequestErrors that name the field."""
        if not given:
            return ()
        if isinstance(given, str):
            return (MessageItem(id=self._id(None, "msg", "input"), role="user", content=(InputText(given),)),)
        items = [self._item(entry, f"input[{index}]") for index, entry in enumerate(given)]
        return tuple(item for item in items if item is not None)

    def _item(self, entry: Any, where: str) -> Item | None:
        if not isinstance(entry, dict):
            raise invalid_value(where, "must be an object", code="invalid_type")
        # OpenAI's short form of a message has no type.
        kind = entry.get("type", "message" if "role" in entry else None)
        read = self._readers().get(kind) if isinstance(kind, str) else None
        if read is None:
            raise invalid_value(
                f"{where}.type",
                f"is {str(kind)[:80]!r}; known Items are {', '.join(self._readers())}",
                code="item_type_not_supported",
            )
        return read(entry, where)

    def _readers(self) -> Mapping[str, Callable[[dict[str, Any], str], Item | None]]:
        return {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "function_call_output": self._function_call_output,
        }

    def _message(self, entry: dict[str, Any], where: str) -> MessageItem:
        wire = convert(entry, _Message, where)
        role = _ROLES.get(wire.role)
        if role is None:
            raise invalid_value(
                f"{where}.role",
                f"is {wire.role[:80]!r}; known roles are {', '.join(_ROLES)}",
                code="unsupported_role",
            )
        return MessageItem(
            id=self._id(wire.id, "msg", where),
            role=role,
            content=message_content(wire.content, role, f"{where}.content"),
            status=_STATUSES.get(wire.status or "", "completed"),
            phase=optional(wire.phase),
        )

    def _reasoning(self, entry: dict[str, Any], where: str) -> ReasoningItem | None:
        wire = convert(entry, _Reasoning, where)
        if not wire.content:
            if self._drop_bare_reasoning:
                return None
            raise invalid_value(
                f"{where}.content",
                "has no reasoning_text, and summaries or encrypted content cannot stand for it; "
                "send the text back or leave the Item out",
                code="reasoning_content_not_supported",
            )
        return ReasoningItem(
            id=self._id(wire.id, "rs", where),
            summary=tuple(wire.summary or ()),
            content=tuple(_reasoning_text(part, f"{where}.content[{i}]") for i, part in enumerate(wire.content)),
            encrypted_content=optional(wire.encrypted_content),
            status=_STATUSES.get(wire.status or "", "completed"),
        )

    def _function_call(self, entry: dict[str, Any], where: str) -> FunctionCallItem:
        wire = convert(entry, _FunctionCall, where)
        _check_complete(wire.status, where)
        checked_name(wire.namespace, wire.name, where)
        try:
            decode_object(wire.arguments.encode(), "the string")
        except RequestError as problem:
            raise invalid_value(f"{where}.arguments", f"must be a JSON object in a string ({problem})") from None
        return FunctionCallItem(
            id=self._id(wire.id, "fc", where),
            call_id=_call_id(wire.call_id, where),
            name=wire.name,
            namespace=optional(wire.namespace),
            arguments=wire.arguments,
        )

    def _function_call_output(self, entry: dict[str, Any], where: str) -> FunctionCallOutputItem:
        wire = convert(entry, _FunctionCallOutput, where)
        _check_complete(wire.status, where)
        return FunctionCallOutputItem(
            id=self._id(wire.id, "fc", where),
            call_id=_call_id(wire.call_id, where),
            name=optional(wire.name),
            namespace=optional(wire.namespace),
            output=tool_output(wire.output, f"{where}.output"),
        )

    def _id(self, given: str | None, prefix: Literal["msg", "rs", "fc"], where: str) -> str:
        if given == "":
            raise invalid_value(f"{where}.id", "is empty; leave it out")
        if given is not None and given in self._taken_ids:
            raise invalid_value(
                f"{where}.id",
                f"'{given[:80]}' stands for an earlier Item of the conversation",
                code="duplicate_item_id",
            )
        chosen = given or response_resource_id(prefix)
        self._taken_ids.add(chosen)
        return chosen


def _reasoning_text(part: dict[str, Any], where: str) -> ReasoningText:
    if part.get("type") != "reasoning_text":
        raise invalid_value(
            f"{where}.type", "must be 'reasoning_text', the raw text", code="reasoning_content_not_supported"
        )
    if not isinstance(part.get("text"), str):
        raise invalid_value(f"{where}.text", "must be a string", code="invalid_type")
    return ReasoningText(part["text"])


def _check_complete(status: str | None, where: str) -> None:
    if status not in (None, "completed"):
        raise invalid_value(
            f"{where}.status",
            f"is {status[:80]!r}; only whole calls and results can be history",
            code="partial_items_not_supported",
        )


def _call_id(given: str, where: str) -> str:
    if not given:
        raise invalid_value(f"{where}.call_id", "is empty; a call and its result share one")
    return given
