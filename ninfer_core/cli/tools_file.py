"""Tool definitions from a JSON file: an array of tools, or an object with `tools` and maybe `tool_choice`.

A tool has the form of any of the three protocols: `{"type": "function", "function": {...}}`, or the function's fields
beside `type`, its schema named `parameters` or `input_schema`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ninfer_core.api.request import ToolDefinition
from ninfer_core.cli.input_file import read_input
from ninfer_core.cli.json_file import naming_file

_CHOICES = 'it can be "auto", "none" or an object of type "allowed_tools"'


class _Function(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] | None = None
    input_schema: dict[str, Any] | None = None


class _Nested(msgspec.Struct, frozen=True):
    function: _Function


def read_tools(path: Path) -> tuple[ToolDefinition, ...]:
    """The effective set: what `tool_choice` leaves of the tools. Raises a click.BadParameter."""
    document = read_input(path, "--tools")
    with naming_file(path, "--tools"):
        return effective_tools(msgspec.json.decode(document))


def effective_tools(document: Any) -> tuple[ToolDefinition, ...]:
    """`read_tools` of a decoded document. Raises a msgspec.ValidationError."""
    described, choice = document, None
    if isinstance(document, dict):
        described, choice = document.get("tools"), document.get("tool_choice")
    tools = tuple(_tool(each) for each in msgspec.convert(described, list[dict[str, Any]]))
    allowed = _allowed_names(choice)
    return tools if allowed is None else tuple(tool for tool in tools if tool.name in allowed)


def _tool(described: dict[str, Any]) -> ToolDefinition:
    function = _function(described)
    parameters = function.input_schema if function.parameters is None else function.parameters
    return ToolDefinition(name=function.name, parameters=parameters or {}, definition=described)


def _function(described: dict[str, Any]) -> _Function:
    if "function" in described:
        return msgspec.convert(described, _Nested).function
    return msgspec.convert(described, _Function)


def _allowed_names(choice: Any) -> frozenset[str] | None:
    """None when every tool may be called."""
    if choice is None or choice == "auto":
        return None
    if choice == "none":
        return frozenset()
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        raise msgspec.ValidationError(f"tool_choice {choice!r} is not known; {_CHOICES}")
    listed = choice.get("allowed_tools", choice)
    described = msgspec.convert(listed, dict[str, Any]).get("tools")
    return frozenset(_function(each).name for each in msgspec.convert(described, list[dict[str, Any]]))
