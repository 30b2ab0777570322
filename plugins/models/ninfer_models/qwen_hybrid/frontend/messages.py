"""Neutral conversations -> the values a chat template reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninfer_core.api import InvalidPrompt, MediaPart, Message, RequestError, ToolDefinition

_SYSTEM_CLASS = ("system", "developer")


def template_messages(messages: Sequence[Message], *, system_anywhere: bool) -> list[dict[str, Any]]:
    """Messages in the order received, developer turns as system turns (contract CHAT-38).

    A template that takes one system turn, at the front only, gets the leading system-class messages as one turn,
    joined by blank lines; a later one is refused by name (decision 20). Assistant turns at the end are history
    (decision 8). Raises InvalidPrompt, and RequestError `vision_disabled` for media parts.
    """
    if not messages:
        raise InvalidPrompt("there are no messages; send at least one user message", param="messages")
    refuse_media(messages)
    if system_anywhere:
        return [template_message(message) for message in messages]
    leading = next((place for place, each in enumerate(messages) if each.role not in _SYSTEM_CLASS), len(messages))
    for place in range(leading, len(messages)):
        if messages[place].role in _SYSTEM_CLASS:
            raise InvalidPrompt(
                f"messages[{place}] is a {messages[place].role} message after the conversation began; this model's "
                "chat template takes system and developer messages at the front only, so move its text there or into a "
                "user message",
                param=f"messages[{place}]",
            )
    rest = [template_message(message) for message in messages[leading:]]
    if not leading:
        return rest
    instructions = "\n\n".join(message.text for message in messages[:leading] if message.text)
    return [{"role": "system", "content": instructions}, *rest]


def template_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]] | None:
    """Definitions exactly as received, in member order (contract CHAT-40); None when there are none."""
    return [tool.definition for tool in tools] or None


def template_message(message: Message) -> dict[str, Any]:
    """One message as a template reads it; content is a list of parts only where there are media."""
    role = "system" if message.role in _SYSTEM_CLASS else message.role
    entry: dict[str, Any] = {"role": role, "content": _template_content(message)}
    if message.reasoning is not None:
        entry["reasoning_content"] = message.reasoning
    if message.tool_calls:
        entry["tool_calls"] = [
            {"type": "function", "id": call.call_id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.call_id is not None:
        entry["tool_call_id"] = message.call_id
    return entry


def _template_content(message: Message) -> str | list[dict[str, str]]:
    if not any(isinstance(part, MediaPart) for part in message.content):
        return message.text
    return [
        {"type": part.modality} if isinstance(part, MediaPart) else {"type": "text", "text": part.text}
        for part in message.content
    ]


def refuse_media(messages: Sequence[Message]) -> None:
    """Raises RequestError `vision_disabled` at the first image or video (contract GEN-22)."""
    for place, message in enumerate(messages):
        for part in message.content:
            if isinstance(part, MediaPart):
                raise RequestError(
                    f"messages[{place}] has {'an image' if part.modality == 'image' else 'a video'}, and this server "
                    "runs without vision; send text only",
                    code="vision_disabled",
                    param=f"messages[{place}].content",
                )
