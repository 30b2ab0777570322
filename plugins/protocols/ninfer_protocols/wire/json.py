"""Strict JSON from a request body (decision 11 in docs/decisions.md).

Invalid UTF-8, lone surrogates, NaN and Infinity are refused; of duplicate keys the last wins; member order is kept,
because prompt-bearing objects are rendered in it (contract CHAT-40).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from ninfer_core.api import RequestError

MAX_DEPTH = 128
"""Levels of nesting. Far beyond any real JSON schema, and safely below what recursive renderers can take."""

PIECE_BYTES = 64 * 1024
"""The interpreter lock is held while one piece is decoded, for a millisecond or two of a prompt in small parts. In
larger pieces a thread that decodes would stop the event loop all the same."""

SPLIT_LEVELS = 5
"""Body, messages, message, content, part: below that a piece is decoded whole, whatever its size. To find the pieces of
a level, its bytes are looked at once more."""

MANY_ITEMS = 256
"""A list of so many is converted item by item."""

_START = re.compile(rb"[ \t\r\n]*(.)", re.DOTALL)
_HALF_PAIR = re.compile(
    rb"(?<!\\)(?:\\\\)*(?P<half>\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2}))"
)
"""An escape of half a surrogate pair, which is no character. Only looked for to explain what a decoder refused."""

_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_TYPES = re.compile(r"`([^`]*)`")
_TYPE_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""msgspec's words for types, where they are Python's: clients are written in other languages too."""

Record = TypeVar("Record", bound=msgspec.Struct)


def decode_object(body: bytes, what: str = "the body") -> dict[str, Any]:
    """The JSON object in `body`, which messages call `what`. Raises RequestError `invalid_json` for anything else."""
    try:
        value = _decode(body, SPLIT_LEVELS)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.MsgspecError, ValueError) as problem:
        raise RequestError(f"{what} is not valid JSON: {_reason(body, problem)}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise RequestError(
            f"{what} must be a JSON object, and is {_json_type(value)}: send {{...}}", code="invalid_json"
        )
    _check_depth(value)
    return value


def convert(value: dict[str, Any], record: type[Record], where: str = "") -> Record:
    """`value`, found at the path `where` of the body, as a `record`; a wrong type becomes a RequestError
    `invalid_type` that names the field."""
    if not any(map(_is_long, value.values())):
        # Before the fields are asked for: finding out their types takes longer than all the rest.
        short: Record = _converted(value, record, where)
        return short
    long = {field.name: field for field in msgspec.structs.fields(record) if _is_long(value.get(field.encode_name))}
    without = value | {field.encode_name: [] for field in long.values()}
    converted: Record = _converted(without, record, where)
    for name, field in long.items():
        kind = _item_type(field.type)
        path = f"{where}.{field.encode_name}".removeprefix(".")
        # One by one, so that a thread which does this lets others run.
        items = [_converted(item, kind, f"{path}[{index}]") for index, item in enumerate(value[field.encode_name])]
        setattr(converted, name, items)
    return converted


def _is_long(value: object) -> bool:
    return isinstance(value, list) and len(value) > MANY_ITEMS


def _item_type(kind: Any) -> Any:
    """X, where one alternative of `kind` is list[X]."""
    for alternative in (kind, *get_args(kind)):
        if get_origin(alternative) is list:
            return get_args(alternative)[0]
    return Any


def _converted(value: object, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise field_error(problem, where) from None


def field_error(problem: msgspec.ValidationError, where: str = "") -> RequestError:
    """msgspec's message with its path taken out: the path, below `where`, becomes `param`. One that is missing is
    named like one that is wrong."""
    text = str(problem)
    found = _PATH.search(text)
    reason = text[: found.start()] if found else text
    steps = [where, found.group(1) if found else ""]
    if missing := _MISSING.fullmatch(reason):
        steps.append(missing[1])
        reason = "is missing"
    path = ".".join(step for step in steps if step).replace(".[", "[")
    reason = _TYPES.sub(_json_words, reason)
    return RequestError(f"{path}: {reason}" if path else reason, code="invalid_type", param=path or None)


def _json_words(types: re.Match[str]) -> str:
    return " | ".join(_TYPE_WORDS.get(word, word) for word in types[1].split(" | "))


def _decode(encoded: bytes | msgspec.Raw, levels: int) -> Any:
    """As in one piece, except that what a later duplicate of its key replaces is not looked into."""
    start = _START.match(encoded) if levels and len(memoryview(encoded)) > PIECE_BYTES else None
    match start and start[1]:
        case b"{":
            members = msgspec.json.decode(encoded, type=dict[str, msgspec.Raw])
            return {name: _decode(member, levels - 1) for name, member in members.items()}
        case b"[":
            return [_decode(item, levels - 1) for item in msgspec.json.decode(encoded, type=list[msgspec.Raw])]
    return msgspec.json.decode(encoded)


def _reason(body: bytes, problem: Exception) -> str:
    """The decoder's own word for half a pair at the end of a string is that the input was truncated."""
    half = _HALF_PAIR.search(body)
    if half is None:
        return str(problem)
    escape, place = half["half"].decode(), half.start("half")
    return (
        f"{escape} at byte {place} is half of a surrogate pair, and no character; send both halves, or the character "
        "itself as UTF-8"
    )


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
