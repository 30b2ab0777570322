"""Functions that the model may call in this request (contract RESP-13 to 15, RESP-42 to 47, IMPL-17).

A definition reaches the prompt in the nested form of Chat Completions, under the function's one internal name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ninfer_core.api import RequestError, ToolDefinition
from ninfer_protocols.openai_responses.names import FunctionName, checked_name
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.json import convert

HOSTED = (
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "computer",
    "computer_use_preview",
    "mcp",
    "tool_search",
)
"""Tools that OpenAI's own servers run; some come with a date behind their name."""


class ToolSet(msgspec.Struct, frozen=True, kw_only=True):
    """`effective` is what may be called, in the order of declaration; `declared` and `choice` are what the answer
    repeats; `names` leads from internal names back; `dropped` are the hosted tools left out (`--compat codex`)."""

    effective: tuple[ToolDefinition, ...] = ()
    names: Mapping[str, FunctionName] = msgspec.field(default_factory=dict)
    declared: tuple[dict[str, Any], ...] = ()
    choice: str | dict[str, Any] = "auto"
    dropped: tuple[str, ...] = ()

    def name(self, internal: str) -> FunctionName:
        return self.names.get(internal) or FunctionName(None, internal)


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    output_schema: Any = None


class _Namespace(msgspec.Struct):
    name: str
    tools: list[dict[str, Any]]
    description: str | None = None


class _Reader:
    """Reads definitions in order."""

    def __init__(self, *, drop_hosted: bool) -> None:
        self._drop_hosted = drop_hosted
        self.definitions: list[ToolDefinition] = []
        self.names: dict[str, FunctionName] = {}
        self.declared: list[dict[str, Any]] = []
        self.dropped: list[str] = []

    def read(self, tool: dict[str, Any], where: str) -> None:
        kind = tool.get("type")
        if kind == "function":
            self.declared.append(self._function(tool, None, where))
        elif kind == "namespace":
            self.declared.append(self._namespace(tool, where))
        elif self._drop_hosted and isinstance(kind, str) and _is_hosted(kind):
            self.dropped.append(kind)
        else:
            raise _not_a_function(kind, where)

    def _namespace(self, tool: dict[str, Any], where: str) -> dict[str, Any]:
        wire = convert(tool, _Namespace, where)
        members = []
        for index, member in enumerate(wire.tools):
            place = f"{where}.tools[{index}]"
            if member.get("type", "function") != "function":
                raise _not_a_function(member.get("type"), place)
            members.append(self._function(member, wire.name, place))
        description = wire.description or ""
        return {"type": "namespace", "name": wire.name, "description": description, "tools": members}

    def _function(self, tool: dict[str, Any], namespace: str | None, where: str) -> dict[str, Any]:
        wire = convert(tool, _Function, where)
        _check_capabilities(wire, where)
        name = checked_name(namespace, wire.name, where)
        if name.internal in self.names:
            raise invalid_value(
                f"{where}.name",
                f"'{name.internal}' is declared twice, or two namespaces make one name of it",
                code="duplicate_tool_name",
            )
        self.names[name.internal] = name
        parameters = {"type": "object", "properties": {}} if wire.parameters is None else wire.parameters
        shown = _shown(tool, name.internal, parameters)
        self.definitions.append(
            ToolDefinition(
                name=name.internal, parameters=parameters, definition={"type": "function", "function": shown}
            )
        )
        return {
            "type": "function",
            "name": wire.name,
            "description": wire.description,
            "parameters": parameters,
            "strict": False,
        }


def read_tools(
    tools: list[dict[str, Any]] | None,
    choice: str | dict[str, Any] | None,
    *,
    parallel: bool,
    drop_hosted: bool,
    ignore_parallel: bool,
) -> ToolSet:
    """Raises a RequestError that names the field for whatever cannot be honoured. `ignore_parallel` takes
    `parallel_tool_calls: false` as a wish (`--compat codex`)."""
    reader = _Reader(drop_hosted=drop_hosted)
    for index, tool in enumerate(tools or ()):
        reader.read(tool, f"tools[{index}]")
    allowed = _allowed(choice, reader.names)
    effective = tuple(tool for tool in reader.definitions if allowed is None or tool.name in allowed)
    if effective and not parallel and not ignore_parallel:
        raise invalid_value(
            "parallel_tool_calls",
            "an answer may have several calls; only true is accepted when tools can be called",
            code="parallel_tool_calls_not_supported",
        )
    return ToolSet(
        effective=effective,
        names=reader.names,
        declared=tuple(reader.declared),
        choice="auto" if choice is None else choice,
        dropped=tuple(dict.fromkeys(reader.dropped)),
    )


def _allowed(choice: str | dict[str, Any] | None, names: Mapping[str, FunctionName]) -> frozenset[str] | None:
    """Internal names that `choice` leaves; None stands for all of them."""
    if choice in (None, "auto"):
        return None
    if choice == "none":
        return frozenset()
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools" or choice.get("mode", "auto") != "auto":
        raise invalid_value(
            "tool_choice",
            "a call cannot be forced; accepted are 'auto', 'none' and allowed_tools with mode 'auto'",
            code="tool_choice_not_supported",
        )
    selections = choice.get("tools")
    if not isinstance(selections, list):
        raise invalid_value("tool_choice.tools", "must be an array", code="invalid_type")
    return frozenset(_selected(each, names, f"tool_choice.tools[{index}]") for index, each in enumerate(selections))


def _selected(selection: Any, names: Mapping[str, FunctionName], where: str) -> str:
    if not isinstance(selection, dict) or selection.get("type") != "function":
        raise invalid_value(where, "must be a function: {'type': 'function', 'name': ...}", code="invalid_tool_choice")
    name, namespace = selection.get("name"), selection.get("namespace")
    if isinstance(name, str) and (namespace is None or isinstance(namespace, str)):
        wanted = FunctionName(namespace, name)
        if names.get(wanted.internal) == wanted:
            return wanted.internal
    raise invalid_value(
        where, "is not among the declared functions; one in a namespace needs both names", code="invalid_tool_choice"
    )


def _check_capabilities(wire: _Function, where: str) -> None:
    if wire.strict:
        raise invalid_value(
            f"{where}.strict",
            "arguments are never constrained to their schema; only false is accepted",
            code="strict_tools_not_supported",
        )
    if wire.defer_loading:
        raise invalid_value(
            f"{where}.defer_loading",
            "every definition is in the prompt; only false is accepted",
            code="deferred_tools_not_supported",
        )
    if wire.output_schema is not None:
        raise invalid_value(
            f"{where}.output_schema",
            "results are not read against a schema; leave it out",
            code="tool_output_schema_not_supported",
        )
    if wire.allowed_callers is not None and "direct" not in wire.allowed_callers:
        raise invalid_value(
            f"{where}.allowed_callers",
            "only the model calls functions; 'direct' must be among them",
            code="tool_caller_not_supported",
        )


def _shown(tool: dict[str, Any], internal: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """What a prompt shows, in the member order that was received (contract CHAT-40)."""
    shown = {
        field: tool[field]
        for field in tool
        if field in ("name", "description", "parameters") and tool[field] is not None
    }
    return shown | {"name": internal, "parameters": parameters}


def _is_hosted(kind: str) -> bool:
    return any(kind == known or kind.startswith(f"{known}_2") for known in HOSTED)


def _not_a_function(kind: object, where: str) -> RequestError:
    shown = kind[:80] if isinstance(kind, str) else kind
    return invalid_value(
        f"{where}.type",
        f"is {shown!r}; this server runs no tools and takes functions and namespaces of functions only",
        code="tool_type_not_supported",
    )
