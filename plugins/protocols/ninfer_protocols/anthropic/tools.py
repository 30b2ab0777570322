"""Tool definitions and the choice among them (contract ANTH-16, ANTH-17, IMPL-16)."""

from __future__ import annotations

from typing import Any

from ninfer_core.api import RequestError, ToolDefinition
from ninfer_protocols.anthropic.blocks import TOOL_NAME
from ninfer_protocols.anthropic.cache import CacheMarks, read_ttl
from ninfer_protocols.anthropic.requests import ToolChoice
from ninfer_protocols.wire.errors import invalid_value

_USER_DEFINED = (None, "custom")


def lower_tools(
    tools: list[dict[str, Any]] | None, choice: ToolChoice | None, marks: CacheMarks
) -> tuple[ToolDefinition, ...]:
    """The set that the model may call: none of them where the choice is `none` (contract TOOL-16)."""
    none = choice is not None and choice.type == "none"
    defined: dict[str, ToolDefinition] = {}
    for index, tool in enumerate(tools or ()):
        where = f"tools[{index}]"
        if none and tool.get("type") not in _USER_DEFINED:
            continue
        definition = _definition(tool, where)
        if definition.name in defined:
            raise invalid_value(f"{where}.name", f"'{definition.name}' is defined twice", code="duplicate_tool_name")
        ttl = read_ttl(tool, where)
        if not none:
            marks.block((None, len(defined)), ttl, where)
        defined[definition.name] = definition
    _check_choice(choice, has_tools=bool(defined))
    return () if none else tuple(defined.values())


def _definition(tool: dict[str, Any], where: str) -> ToolDefinition:
    _check_capabilities(tool, where)
    name = tool.get("name")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise invalid_value(f"{where}.name", "must be a string of 1 to 128 letters, digits, '_' or '-'")
    description = tool.get("description")
    if description is not None and not isinstance(description, str):
        raise invalid_value(f"{where}.description", "must be a string", code="invalid_type")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise invalid_value(f"{where}.input_schema", "must be a JSON schema of type 'object'")
    function: dict[str, Any] = {"name": name}
    if description is not None:
        function["description"] = description
    function["parameters"] = schema
    if examples := _examples(tool.get("input_examples"), f"{where}.input_examples"):
        function["input_examples"] = examples
    return ToolDefinition(name=name, parameters=schema, definition={"type": "function", "function": function})


def _examples(value: Any, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(example, dict) for example in value):
        raise invalid_value(where, "must be an array of objects", code="invalid_type")
    return value


def _check_capabilities(tool: dict[str, Any], where: str) -> None:
    kind = tool.get("type")
    if isinstance(kind, str) and kind.endswith("toolset"):
        raise invalid_value(
            f"{where}.type", f"'{kind}': this server connects to no toolset", code="toolsets_not_supported"
        )
    if kind not in _USER_DEFINED:
        raise invalid_value(
            f"{where}.type",
            f"{kind!r}: no tool runs on this server and none is built into the model; define it yourself as 'custom'",
            code="anthropic_tools_not_supported",
        )
    if tool.get("strict"):
        raise invalid_value(
            f"{where}.strict",
            "arguments are never constrained to their schema; only false is accepted",
            code="strict_tools_not_supported",
        )
    if tool.get("defer_loading"):
        raise invalid_value(
            f"{where}.defer_loading",
            "every tool is in the prompt from the beginning; only false is accepted",
            code="deferred_tools_not_supported",
        )
    callers = tool.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        raise invalid_value(
            f"{where}.allowed_callers",
            "only the model itself calls tools; the list must have 'direct'",
            code="tool_caller_not_supported",
        )


def _check_choice(choice: ToolChoice | None, *, has_tools: bool) -> None:
    if choice is None:
        return
    if choice.type in ("any", "tool"):
        raise invalid_value(
            "tool_choice.type",
            f"'{choice.type}': a call cannot be forced; only 'auto' and 'none' are accepted",
            code="tool_choice_not_supported",
        )
    if choice.type not in ("auto", "none"):
        raise invalid_value("tool_choice.type", f"is '{choice.type}'; it must be 'auto' or 'none'")
    if choice.disable_parallel_tool_use and has_tools and choice.type == "auto":
        raise RequestError(
            "tool_choice.disable_parallel_tool_use: the model cannot be held to one call; only false is accepted",
            code="parallel_tool_use_not_supported",
            param="tool_choice.disable_parallel_tool_use",
        )
