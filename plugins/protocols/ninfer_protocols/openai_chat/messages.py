"""History as the wire has it -> neutral messages. Order and text are kept to the byte (contract CHAT-4, CHAT-38)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ninfer_core.api import InvalidPrompt, MediaPart, Message, Part, RequestError, Role, TextPart, ToolCall
from ninfer_protocols.openai_chat.requests import ChatMessage, FunctionCall, ToolCallItem
from ninfer_protocols.wire.cache_hints import Place, has_breakpoint
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.json import decode_object
from ninfer_protocols.wire.media import check_detail, checked_source

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    # The legacy name of a tool's result (contract CHAT-17).
    "function": "tool",
}
_MEDIA: Mapping[str, Literal["image", "video"]] = {"image_url": "image", "video_url": "video"}
_MEDIA_ROLES: Mapping[str, tuple[str, ...]] = {"image_url": ("user", "tool"), "video_url": ("user",)}


def lower_messages(messages: list[ChatMessage]) -> tuple[Message, ...]:
    """Neutral messages in the order received. Raises a RequestError that names the offending field."""
    if not messages:
        raise InvalidPrompt("messages: there is none; send at least one user message", param="messages")
    return tuple(_lower(message, f"messages[{index}]") for index, message in enumerate(messages))


def cache_breakpoints(messages: list[ChatMessage]) -> list[Place]:
    """Parts that a client would like the prompt to be kept at (contract PCACHE-3). Raises for a malformed one."""
    return [
        (index, number)
        for index, message in enumerate(messages)
        if isinstance(message.content, list)
        for number, part in enumerate(message.content)
        if has_breakpoint(part, f"messages[{index}].content[{number}]")
    ]


def _lower(message: ChatMessage, where: str) -> Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise invalid_value(
            f"{where}.role",
            f"is '{message.role}'; known roles are {', '.join(_ROLES)}",
            code="unsupported_role",
        )
    _check_name(message, where)
    if role != "assistant":
        _check_not_assistant(message, where)
    if message.role != "tool" and message.tool_call_id:
        raise invalid_value(f"{where}.tool_call_id", "belongs to messages of role 'tool'")
    if message.role == "tool" and message.tool_call_id is None:
        raise invalid_value(f"{where}.tool_call_id", "must be a string: the id of the call this is the result of")
    return Message(
        role=role,
        content=_content(message, where),
        reasoning=_reasoning(message, where),
        tool_calls=_tool_calls(message, where),
        call_id=message.tool_call_id if message.role == "tool" else None,
    )


def _check_name(message: ChatMessage, where: str) -> None:
    if message.role == "function" and not message.name:
        raise invalid_value(f"{where}.name", "must be a non-empty string: the function this is the result of")
    if message.name and message.role not in ("tool", "function"):
        raise invalid_value(
            f"{where}.name",
            "participants have no names in this model's prompt; put the name into the text",
            code="message_name_not_supported",
        )


def _check_not_assistant(message: ChatMessage, where: str) -> None:
    for field in ("reasoning_content", "reasoning", "tool_calls", "function_call", "refusal", "audio"):
        if getattr(message, field):
            raise invalid_value(f"{where}.{field}", "belongs to messages of role 'assistant'")


def _content(message: ChatMessage, where: str) -> tuple[Part, ...]:
    if message.audio is not None:
        raise invalid_value(
            f"{where}.audio", "audio of earlier turns cannot be read", code="assistant_history_not_supported"
        )
    content = message.content
    if content is None and message.role != "assistant":
        raise invalid_value(f"{where}.content", "must be a string or an array of parts")
    parts: list[Part] = []
    if isinstance(content, str):
        parts += [TextPart(content)] if content else []
    else:
        parts += [_part(part, message.role, f"{where}.content[{index}]") for index, part in enumerate(content or ())]
    if message.refusal:
        parts.append(TextPart(message.refusal))
    return tuple(parts)


def _part(part: dict[str, Any], role: str, where: str) -> Part:
    kind = part.get("type")
    if kind == "text" or (kind == "refusal" and role == "assistant"):
        text = part.get(kind)
        if not isinstance(text, str):
            raise invalid_value(f"{where}.{kind}", "must be a string")
        return TextPart(text)
    if isinstance(kind, str) and kind in _MEDIA:
        return _media(part, kind, role, where)
    if kind in ("input_audio", "file"):
        raise invalid_value(f"{where}.type", f"'{kind}' cannot be read; send its text", code="modality_not_supported")
    raise invalid_value(f"{where}.type", f"is {kind!r}; known types are text, refusal, image_url and video_url")


def _media(part: dict[str, Any], kind: str, role: str, where: str) -> MediaPart:
    if role not in _MEDIA_ROLES[kind]:
        raise invalid_value(f"{where}.type", f"'{kind}' is not accepted in messages of role '{role}'")
    source = part.get(kind)
    if isinstance(source, dict):
        check_detail(source.get("detail"), f"{where}.{kind}.detail")
        source = source.get("url")
    return MediaPart(modality=_MEDIA[kind], source=checked_source(source, f"{where}.{kind}"))


def _reasoning(message: ChatMessage, where: str) -> str | None:
    """One of the two spellings, or both when they agree (contract CHAT-20, IMPL-9)."""
    first, second = message.reasoning_content, message.reasoning
    if first and second and first != second:
        raise RequestError(
            f"{where}.reasoning: differs from reasoning_content; send one of the two",
            code="conflicting_template_option",
            param=f"{where}.reasoning",
        )
    return first or second or None


def _tool_calls(message: ChatMessage, where: str) -> tuple[ToolCall, ...]:
    calls = [_tool_call(item, f"{where}.tool_calls[{index}]") for index, item in enumerate(message.tool_calls or ())]
    if message.function_call is not None:
        calls.append(_call(message.function_call, None, f"{where}.function_call"))
    return tuple(calls)


def _tool_call(item: ToolCallItem, where: str) -> ToolCall:
    if item.type != "function":
        raise invalid_value(
            f"{where}.type", f"is '{item.type}'; only 'function' calls are accepted", code="tool_type_not_supported"
        )
    if item.function is None:
        raise invalid_value(f"{where}.function", "must be an object with 'name' and 'arguments'")
    return _call(item.function, item.id, f"{where}.function")


def _call(call: FunctionCall, call_id: str | None, where: str) -> ToolCall:
    try:
        arguments = decode_object(call.arguments.encode(), "the string") if call.arguments else {}
    except RequestError as problem:
        raise invalid_value(f"{where}.arguments", f"must be a JSON object in a string ({problem})") from None
    return ToolCall(name=call.name, arguments=arguments, call_id=call_id)
