"""Tool controls of a request -> the tools that the model sees and may call (contract CHAT-15, CHAT-16, CHAT-24)."""

from __future__ import annotations

import re
from typing import Any

from ninfer_core.api import RequestError, ToolDefinition
from ninfer_protocols.openai_chat.requests import ChatRequest
from ninfer_protocols.wire.errors import invalid_value

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Contract IMPL-8."""

_NOT_FORCED = "a call cannot be forced; accepted are 'none', 'auto', and 'allowed_tools' with mode 'auto'"


def effective_tools(request: ChatRequest) -> tuple[ToolDefinition, ...]:
    """What `tool_choice` leaves of `tools`, in their own order. Everything that is sent is checked, also what it
    leaves out."""
    declared = tuple(_definition(tool, f"tools[{index}]") for index, tool in enumerate(request.tools or ()))
    allowed = _allowed_names(request.tool_choice, {tool.name for tool in declared})
    tools = declared if allowed is None else tuple(tool for tool in declared if tool.name in allowed)
    if request.parallel_tool_calls is False and tools:
        raise invalid_value(
            "parallel_tool_calls",
            "the number of calls in an answer cannot be limited; only true is accepted beside tools",
            code="parallel_tool_calls_not_supported",
        )
    return tools


def _definition(tool: dict[str, Any], where: str) -> ToolDefinition:
    kind = tool.get("type", "function")
    if kind != "function":
        raise invalid_value(
            f"{where}.type", f"is {kind!r}; only 'function' tools are accepted", code="tool_type_not_supported"
        )
    function = tool.get("function")
    if not isinstance(function, dict):
        raise invalid_value(f"{where}.function", "must be an object")
    _check_strict(function.get("strict"), f"{where}.function.strict")
    description = function.get("description")
    if not isinstance(description, str | None):
        raise invalid_value(f"{where}.function.description", "must be a string")
    parameters = function.get("parameters")
    if not isinstance(parameters, dict | None):
        raise invalid_value(f"{where}.function.parameters", "must be an object: a JSON schema")
    return ToolDefinition(
        name=_name(function.get("name"), f"{where}.function.name"),
        parameters={"type": "object", "properties": {}} if parameters is None else parameters,
        definition=tool,
    )


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid_value(where, "must be 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-'")
    return name


def _check_strict(strict: Any, where: str) -> None:
    if not isinstance(strict, bool | None):
        raise invalid_value(where, "must be true or false")
    if strict:
        raise invalid_value(
            where,
            "arguments are never constrained to their schema; only false is accepted",
            code="strict_tools_not_supported",
        )


def _allowed_names(choice: str | dict[str, Any] | None, declared: set[str]) -> set[str] | None:
    """None when every declared tool may be called."""
    if choice is None or choice == "auto":
        return None
    if choice == "none":
        return set()
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        raise invalid_value("tool_choice", _NOT_FORCED, code="tool_choice_not_supported")
    # The members stand in an object of their own, as OpenAI's reference has it, or beside `type`.
    listed = choice.get("allowed_tools", choice)
    if not isinstance(listed, dict):
        raise invalid_value("tool_choice.allowed_tools", "must be an object with 'mode' and 'tools'")
    if listed.get("mode") != "auto":
        raise invalid_value("tool_choice.allowed_tools.mode", _NOT_FORCED, code="tool_choice_not_supported")
    tools = listed.get("tools")
    if not isinstance(tools, list):
        raise invalid_value("tool_choice.allowed_tools.tools", "must be an array of tools")
    names = {_allowed_name(tool, f"tool_choice.allowed_tools.tools[{index}]") for index, tool in enumerate(tools)}
    if unknown := sorted(names - declared):
        raise RequestError(
            f"tool_choice.allowed_tools: {', '.join(unknown)} is not among the tools of this request",
            code="invalid_tool_choice",
            param="tool_choice",
        )
    return names


def _allowed_name(tool: Any, where: str) -> str:
    if not isinstance(tool, dict) or tool.get("type", "function") != "function":
        raise invalid_value(where, "must be a tool of type 'function'", code="tool_type_not_supported")
    function = tool.get("function", tool)
    if not isinstance(function, dict):
        raise invalid_value(f"{where}.function", "must be an object with 'name'")
    return _name(function.get("name"), f"{where}.name")
