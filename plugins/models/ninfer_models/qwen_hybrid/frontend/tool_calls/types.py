"""What the effective tool set says about names and top-level types (contract TOOL-2, TOOL-7, TOOL-11, TOOL-19)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ninfer_core.api import FallbackReason, ToolDefinition

TypeSet = frozenset[str]
"""Type words of JSON Schema; the empty set is a parameter whose value is inferred."""

UNTYPED: TypeSet = frozenset()
MAX_NAME_CHARACTERS = 128
"""Contract TOOL-17."""

_WORDS = frozenset(("string", "number", "integer", "boolean", "null", "array", "object"))
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class DeclaredTools:
    """Names and parameter types of the tools that may be called."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        declared: dict[str, Mapping[str, TypeSet] | None] = {}
        for tool in tools:
            types = _parameter_types(tool.parameters)
            same = tool.name not in declared or declared[tool.name] == types
            declared[tool.name] = types if same else None
        self._types_by_name = declared
        self.longest_name = max([MAX_NAME_CHARACTERS, *map(len, declared)])

    def refusal(self, name: str) -> FallbackReason | None:
        """Why a call of `name` is text; None when it is declared. An exact declared name may hold any character."""
        if name in self._types_by_name:
            return None
        if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
            return "invalid_tool_name"
        return "undeclared_tool"

    def types(self, name: str, key: str) -> tuple[TypeSet, bool]:
        """The types of a declared tool's parameter, and whether that parameter is known. Where two declarations of
        one name differ, every parameter is known and inferred."""
        types = self._types_by_name[name]
        if types is None:
            return UNTYPED, True
        return types.get(key, UNTYPED), key in types


def _parameter_types(parameters: Any) -> dict[str, TypeSet]:
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {key: type_set(schema) for key, schema in properties.items()}


def type_set(schema: Any) -> TypeSet:
    """The explicit types of one parameter. `type` goes before `anyOf` and `oneOf`; of these one may stand alone, and
    every branch has to be explicit."""
    if not isinstance(schema, dict):
        return UNTYPED
    if "type" in schema:
        return _words(schema["type"])
    alternatives = [schema[word] for word in ("anyOf", "oneOf") if word in schema]
    if len(alternatives) != 1 or not isinstance(alternatives[0], list):
        return UNTYPED
    branches = [_words(branch.get("type")) if isinstance(branch, dict) else UNTYPED for branch in alternatives[0]]
    return frozenset().union(*branches) if all(branches) else UNTYPED


def _words(value: Any) -> TypeSet:
    """A word or a list of words. One that is unknown makes the whole unsupported, unless a string is admitted
    anyway: then nothing else matters (TOOL-3)."""
    words = value if isinstance(value, list) else [value]
    if "string" in words:
        return frozenset(("string",))
    if all(isinstance(word, str) and word in _WORDS for word in words):
        return frozenset(words)
    return UNTYPED
