"""Tool controls of a request. Calls are not built yet in this release, so only what asks for none is accepted."""

from __future__ import annotations

from typing import Any

from ninfer_core.api import RequestError
from ninfer_protocols.openai_chat.requests import ChatRequest
from ninfer_protocols.wire.errors import invalid_value

_NOT_BUILT = "tool calls are not built yet in this release; send no tools"


def check(request: ChatRequest) -> None:
    """Raise for tools that could be called, and for choices that no release will honour (contract CHAT-24)."""
    for index, tool in enumerate(request.tools or ()):
        _check_definition(tool, f"tools[{index}]")
    _check_choice(request.tool_choice)
    if request.tools:
        raise RequestError(f"tools: {_NOT_BUILT}", code="tools_not_supported", param="tools")


def _check_definition(tool: dict[str, Any], where: str) -> None:
    kind = tool.get("type", "function")
    if kind != "function":
        raise invalid_value(
            f"{where}.type", f"is {kind!r}; only 'function' tools are accepted", code="tool_type_not_supported"
        )
    function = tool.get("function")
    if not isinstance(function, dict):
        raise invalid_value(f"{where}.function", "must be an object")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise invalid_value(f"{where}.function.name", "must be a non-empty string")
    if function.get("strict"):
        raise invalid_value(
            f"{where}.function.strict",
            "arguments are never constrained to their schema; only false is accepted",
            code="strict_tools_not_supported",
        )


def _check_choice(choice: str | dict[str, Any] | None) -> None:
    if choice in (None, "none", "auto"):
        return
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        raise RequestError(f"tool_choice: {_NOT_BUILT}", code="tools_not_supported", param="tool_choice")
    raise invalid_value(
        "tool_choice",
        "a call cannot be forced; only 'none' and 'auto' are accepted",
        code="tool_choice_not_supported",
    )
