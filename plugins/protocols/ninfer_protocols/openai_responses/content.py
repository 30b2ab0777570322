"""Content parts of messages and of tool results -> canonical parts (contract RESP-24 to 29, RESP-38, RESP-40)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from ninfer_core.api import RequestError
from ninfer_protocols.openai_responses.items import (
    InputImage,
    InputText,
    InputVideo,
    MessageContent,
    OutputContent,
    OutputText,
    Refusal,
)
from ninfer_protocols.wire.cache_hints import has_breakpoint
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.media import check_detail, checked_source

_UNREADABLE: Mapping[str, tuple[str, str]] = {
    "input_file": ("file_inputs_not_supported", "files cannot be read; send their text"),
    "input_audio": ("audio_inputs_not_supported", "audio cannot be read; send its text"),
}


def message_content(content: str | list[dict[str, Any]], role: str, where: str) -> tuple[MessageContent, ...]:
    """A string is one part, of the kind that belongs to `role`; an empty one is no part."""
    if isinstance(content, str):
        kind = OutputText if role == "assistant" else InputText
        return (kind(content),) if content else ()
    return tuple(_message_part(part, role, f"{where}[{index}]") for index, part in enumerate(content))


def tool_output(output: str | list[dict[str, Any]], where: str) -> str | tuple[OutputContent, ...]:
    """A string, or at least one part of text or image (contract RESP-32)."""
    if isinstance(output, str):
        return output
    if not output:
        raise invalid_value(where, "is an empty array; send a string, which may be empty, or at least one part")
    return tuple(_output_part(part, f"{where}[{index}]") for index, part in enumerate(output))


def _message_part(part: dict[str, Any], role: str, where: str) -> MessageContent:
    kind = part.get("type")
    if kind in ("output_text", "refusal") and role != "assistant":
        raise invalid_value(f"{where}.type", f"'{kind}' belongs to messages of role 'assistant'")
    if kind in ("input_image", "input_video") and role not in ("user", "assistant"):
        raise invalid_value(f"{where}.type", f"messages of role '{role}' are text only", code="modality_not_supported")
    read = _MESSAGE_PARTS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise _unknown_part(kind, _MESSAGE_PARTS, where)
    return read(part, where)


def _output_part(part: dict[str, Any], where: str) -> OutputContent:
    kind = part.get("type")
    if kind == "input_text":
        return _input_text(part, where)
    if kind == "input_image":
        return _input_image(part, where)
    if kind == "input_video":
        raise invalid_value(f"{where}.type", "results of tools are text and images", code="modality_not_supported")
    raise _unknown_part(kind, ("input_text", "input_image"), where)


def _unknown_part(kind: object, known: Iterable[str], where: str) -> RequestError:
    if isinstance(kind, str) and kind in _UNREADABLE:
        code, reason = _UNREADABLE[kind]
        return invalid_value(f"{where}.type", reason, code=code)
    return invalid_value(
        f"{where}.type", f"is {str(kind)[:80]!r}; known types are {', '.join(known)}", code="content_type_not_supported"
    )


def _input_text(part: dict[str, Any], where: str) -> InputText:
    return InputText(_text(part, "text", where), _breakpoint(part, where))


def _output_text(part: dict[str, Any], where: str) -> OutputText:
    return OutputText(_text(part, "text", where))


def _refusal(part: dict[str, Any], where: str) -> Refusal:
    return Refusal(_text(part, "refusal", where))


def _input_image(part: dict[str, Any], where: str) -> InputImage:
    if part.get("file_id") is not None:
        raise invalid_value(
            f"{where}.file_id", "no files are stored here; send image_url", code="file_inputs_not_supported"
        )
    check_detail(part.get("detail"), f"{where}.detail")
    marked = _breakpoint(part, where)
    return InputImage(checked_source(part.get("image_url"), f"{where}.image_url"), prompt_cache_breakpoint=marked)


def _input_video(part: dict[str, Any], where: str) -> InputVideo:
    return InputVideo(checked_source(part.get("video_url"), f"{where}.video_url"))


def _text(part: dict[str, Any], field: str, where: str) -> str:
    text = part.get(field)
    if not isinstance(text, str):
        raise invalid_value(f"{where}.{field}", "must be a string", code="invalid_type")
    return text


def _breakpoint(part: dict[str, Any], where: str) -> dict[str, Any] | UnsetType:
    return {"mode": "explicit"} if has_breakpoint(part, where) else UNSET


_MESSAGE_PARTS: Mapping[str, Callable[[dict[str, Any], str], MessageContent]] = {
    "input_text": _input_text,
    "output_text": _output_text,
    "refusal": _refusal,
    "input_image": _input_image,
    "input_video": _input_video,
}
