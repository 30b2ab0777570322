"""Strict JSON from a request body (decision 11 in docs/decisions.md).

Invalid UTF-8, lone surrogates, NaN and Infinity are refused; of duplicate keys the last wins; member order is kept,
because prompt-bearing objects are rendered in it (contract CHAT-40).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from ninfer_core.api import RequestError

MAX_DEPTH = 128
"""Levels of nesting. Far beyond any real JSON schema, and safely below what recursive renderers can take."""

_PATH = re.compile(r" - at `\$\.?([^`]*)`$")

Record = TypeVar("Record", bound=msgspec.Struct)


def decode_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises RequestError `invalid_json` for anything else."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.MsgspecError, ValueError) as problem:
        raise RequestError(f"the body is not valid JSON: {problem}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise RequestError(
            f"the body must be a JSON object, and is {_json_type(value)}: send {{...}}", code="invalid_json"
        )
    _check_depth(value)
    return value


def convert(value: dict[str, Any], record: type[Record], where: str = "") -> Record:
    """`value`, found at the path `where` of the body, as a `record`; a wrong type becomes a RequestError
    `invalid_type` that names the field."""
    try:
        return msgspec.convert(value, record)
    except msgspec.ValidationError as problem:
        raise field_error(problem, where) from None


def field_error(problem: msgspec.ValidationError, where: str = "") -> RequestError:
    """msgspec's message with its path taken out: the path, below `where`, becomes `param`."""
    text = str(problem)
    found = _PATH.search(text)
    path = ".".join(step for step in (where, found.group(1) if found else "") if step).replace(".[", "[")
    reason = text[: found.start()] if found else text
    reason = reason.replace("`", "")
    return RequestError(f"{path}: {reason}" if path else reason, code="invalid_type", param=path or None)


def _check_depth(value: object) -> None:
    """Level by level, so that no recursion of ours depends on what a client sends."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise _too_deep()


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, dict | list)]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, dict | list)]
    return []


def _too_deep() -> RequestError:
    return RequestError(f"the body nests deeper than {MAX_DEPTH} levels; send a flatter one", code="invalid_json")


def _json_type(value: object) -> str:
    return {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
