"""Content blocks as the wire has them -> neutral values, with what they say about caching.

Blocks that need an executor or a reader this server does not have are refused by name (contract ANTH-27, ANTH-47).
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ninfer_core.api import MediaPart, RequestError, TextPart, ToolCall
from ninfer_protocols.anthropic.cache import read_ttl
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.media import checked_source

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
TOOL_ERROR = "Tool error:\n"
"""Stands before the content of a result that a client marked with `is_error` (contract ANTH-18)."""

_SYSTEM, _USER, _ASSISTANT, _RESULT = "system", "user", "assistant", "tool_result"
_TYPES: Mapping[str, tuple[str, ...]] = {
    _SYSTEM: ("text",),
    _USER: ("text", "image", "tool_result"),
    _ASSISTANT: ("text", "thinking", "redacted_thinking", "tool_use"),
    _RESULT: ("text", "image"),
}
"""Block types by where they stand."""

_REFUSED: Mapping[str, tuple[str, str]] = {
    "document": ("documents_not_supported", "documents cannot be read here; send their text in a text block"),
    "search_result": ("search_results_not_supported", "search results cannot be cited here; send their text"),
    "server_tool_use": ("server_tools_not_supported", "no tool runs on this server; only user-defined tools do"),
    "mcp_tool_use": ("server_tools_not_supported", "this server connects to no MCP server; only user-defined tools do"),
    "container_upload": ("container_not_supported", "this server has no containers and keeps no files"),
}
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+/-]*")


class Thinking(NamedTuple):
    """Reasoning of an earlier answer; empty where it came redacted, which nobody can read back."""

    text: str


class ToolResult(NamedTuple):
    """`parts` are the content in its order, and `ttls` what each of them says about caching."""

    tool_use_id: str
    parts: tuple[TextPart | MediaPart, ...]
    ttls: tuple[str | None, ...]


class Block(NamedTuple):
    """`ttl` is the block's own, None where it has no `cache_control`. `where` is its path in the body."""

    value: TextPart | MediaPart | Thinking | ToolCall | ToolResult
    ttl: str | None
    where: str


def read_blocks(content: str | list[dict[str, Any]], place: str, where: str) -> list[Block]:
    """Blocks of `content`, which stands at `where` in a place such as `user`. An empty string is no block."""
    if isinstance(content, str):
        return [Block(TextPart(content), None, where)] if content else []
    return [_block(block, place, f"{where}[{index}]") for index, block in enumerate(content)]


def _block(block: dict[str, Any], place: str, where: str) -> Block:
    kind = block.get("type")
    if kind not in _TYPES[place]:
        raise _refusal(kind, place, where)
    ttl = read_ttl(block, where)
    match kind:
        case "text":
            return Block(TextPart(_text(block, "text", where)), ttl, where)
        case "image":
            return Block(_image(block, where), ttl, where)
        case "tool_use":
            return Block(_tool_use(block, where), ttl, where)
        case "tool_result":
            return Block(_tool_result(block, where), ttl, where)
    if ttl is not None:
        raise invalid_value(
            f"{where}.cache_control", f"a {kind} block is no place to cache at", code="invalid_cache_control"
        )
    return Block(Thinking(_text(block, "thinking", where) if kind == "thinking" else ""), None, where)


def _refusal(kind: Any, place: str, where: str) -> RequestError:
    path = f"{where}.type"
    if not isinstance(kind, str):
        return invalid_value(path, f"must be one of {', '.join(_TYPES[place])}")
    if kind in _REFUSED or (kind.endswith("_tool_result")):
        code, reason = _REFUSED.get(kind, _REFUSED["server_tool_use"])
        return invalid_value(path, f"'{kind}': {reason}", code=code)
    return invalid_value(
        path,
        f"'{kind}' blocks are not read in {place} content; known there are {', '.join(_TYPES[place])}",
        code="content_block_not_supported",
    )


def _text(block: dict[str, Any], field: str, where: str) -> str:
    text = block.get(field)
    if not isinstance(text, str):
        raise invalid_value(f"{where}.{field}", "must be a string", code="invalid_type")
    return text


def _tool_use(block: dict[str, Any], where: str) -> ToolCall:
    name = _text(block, "name", where)
    if not TOOL_NAME.fullmatch(name):
        raise invalid_value(f"{where}.name", "must be 1 to 128 letters, digits, '_' or '-'")
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        raise invalid_value(f"{where}.input", "must be an object", code="invalid_type")
    return ToolCall(name=name, arguments=arguments, call_id=_identifier(block, "id", where))


def _tool_result(block: dict[str, Any], where: str) -> ToolResult:
    content = block.get("content")
    failed = block.get("is_error")
    if failed is not None and not isinstance(failed, bool):
        raise invalid_value(f"{where}.is_error", "must be true or false", code="invalid_type")
    if content is not None and not isinstance(content, str) and not _is_array_of_objects(content):
        raise invalid_value(f"{where}.content", "must be a string or an array of blocks", code="invalid_type")
    blocks = read_blocks("" if content is None else content, _RESULT, f"{where}.content")
    if failed:
        blocks.insert(0, Block(TextPart(TOOL_ERROR), None, where))
    return ToolResult(
        tool_use_id=_identifier(block, "tool_use_id", where),
        parts=tuple(inner.value for inner in blocks if isinstance(inner.value, TextPart | MediaPart)),
        ttls=tuple(inner.ttl for inner in blocks),
    )


def _identifier(block: dict[str, Any], field: str, where: str) -> str:
    identifier = block.get(field)
    if not isinstance(identifier, str) or not identifier:
        raise invalid_value(f"{where}.{field}", "must be a non-empty string", code="invalid_tool_history")
    return identifier


def _is_array_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _image(block: dict[str, Any], where: str) -> MediaPart:
    source = block.get("source")
    _check_transformations(block.get("transformations"), f"{where}.transformations")
    if not isinstance(source, dict):
        raise invalid_value(f"{where}.source", "must be an object", code="invalid_type")
    match source.get("type"):
        case "base64":
            return MediaPart(modality="image", source=_data_uri(source, f"{where}.source"))
        case "url":
            return MediaPart(modality="image", source=checked_source(source.get("url"), f"{where}.source.url"))
        case "file":
            raise invalid_value(
                f"{where}.source.type", "'file': this server keeps no files; send base64", code="files_not_supported"
            )
    raise invalid_value(f"{where}.source.type", "must be 'base64' or 'url'")


def _data_uri(source: dict[str, Any], where: str) -> str:
    """The bytes decide what an image is, its label does not (decision 10)."""
    label, data = source.get("media_type"), source.get("data")
    if label is not None and not (isinstance(label, str) and _MEDIA_TYPE.fullmatch(label)):
        raise invalid_value(f"{where}.media_type", "must be a media type such as image/png", code="invalid_media")
    try:
        valid = isinstance(data, str) and bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        valid = False
    if not valid:
        raise invalid_value(f"{where}.data", "must be base64 of the image's bytes", code="invalid_media")
    return f"data:{label or 'application/octet-stream'};base64,{data}"


def _check_transformations(value: Any, where: str) -> None:
    """Contract ANTH-48."""
    if value is None:
        return
    if not isinstance(value, dict) or value.get("oversized_image") not in (None, "downsize", "error"):
        raise invalid_value(where, "may have 'oversized_image': 'downsize' or 'error'")
