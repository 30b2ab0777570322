"""The text between parameter tags -> a JSON value (contract TOOL-3 to TOOL-8, TOOL-18, decisions 4 and 5).

Values are strict JSON: NaN, Infinity, and numbers that a double holds only as infinity are not taken as numbers.
Integers are exact up to Python's limit for reading them (4,300 digits); other numbers are doubles, so `1.10` is
written again as `1.1`. Of equal member names in one object the last wins (decision 11).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import BLANK
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import TypeSet

MAX_JSON_DEPTH = 128
"""Deeper values stay text: what reads them again on their way to a client recurses with their depth."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Omitted:
    """The value of an empty block that is no argument (TOOL-4)."""


class Converted(NamedTuple):
    """`value` is JSON, or `Omitted`. `mismatch` says that no declared type admits it (TOOL-6)."""

    value: Any
    mismatch: bool = False


def convert(text: str, types: TypeSet) -> Converted:
    """`text` is everything between the tags of one parameter."""
    if "string" in types:
        return Converted(without_framing(text))
    trimmed = text.strip(BLANK)
    if not types:
        return Converted(_inferred(trimmed))
    if not trimmed:
        return Converted(Omitted)
    if "boolean" in types and trimmed.lower() in ("true", "false"):
        return Converted(trimmed.lower() == "true")
    value = _inferred(trimmed)
    return Converted(value, mismatch=not any(_admits(word, value) for word in types))


def without_framing(text: str) -> str:
    """Remove one LF or CRLF at the beginning and one at the end."""
    for newline in ("\r\n", "\n"):
        if text.startswith(newline):
            text = text[len(newline) :]
            break
    for newline in ("\r\n", "\n"):
        if text.endswith(newline):
            return text[: -len(newline)]
    return text


def _inferred(text: str) -> Any:
    """The JSON value that `text` spells, otherwise `text` itself."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return text
    if _too_deep(text, value) or (_SURROGATE.search(text) and not _is_unicode(value)):
        return text
    return value


def _admits(word: str, value: Any) -> bool:
    match word:
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            raise AssertionError(f"{word} is no type that values are converted to")


def _too_deep(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return False
    level, depth = [value], 0
    while level:
        depth += 1
        containers = (each for each in level if isinstance(each, list | dict))
        level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
        if depth > MAX_JSON_DEPTH:
            return True
    return False


def _is_unicode(value: Any) -> bool:
    """Whether no string in `value` holds half of a surrogate pair, which cannot be sent as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite(spelling: str) -> float:
    number = float(spelling)
    if not math.isfinite(number):
        raise ValueError(f"{spelling} is beyond a double")
    return number


def _no_constant(spelling: str) -> float:
    raise ValueError(f"{spelling} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
