"""OpenAI's prompt cache hints -> cache marks of the neutral request (contract PCACHE-1 to 8, IMPL-18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninfer_core.api import CacheMark, Message
from ninfer_protocols.wire.errors import invalid_value

MAX_WRITES = 4
"""Distinct boundaries that one request may ask to keep (contract PCACHE-4)."""

Place = tuple[int, int]
"""Index of a message, index of a part of its content."""


def has_breakpoint(part: dict[str, Any], where: str) -> bool:
    """Whether a content part ends at a breakpoint. Raises RequestError `invalid_cache_breakpoint` for a malformed
    one."""
    value = part.get("prompt_cache_breakpoint")
    if value is None:
        return False
    if not isinstance(value, dict) or value.get("mode") != "explicit" or value.get("ttl") not in (None, "30m"):
        raise invalid_value(
            f"{where}.prompt_cache_breakpoint", "must be {'mode': 'explicit'}", code="invalid_cache_breakpoint"
        )
    return True


def openai_cache_marks(
    messages: Sequence[Message], breakpoints: Sequence[Place], tool_count: int, options: dict[str, Any] | None
) -> tuple[CacheMark, ...]:
    """Marks in the order of the prompt: the latest of `breakpoints`, and the automatic one unless `options` (the
    checked `prompt_cache_options`) say `explicit`. Where both mean one place it takes one slot."""
    options = options or {}
    ttl = options.get("ttl")
    places: list[tuple[int, int | None]] = sorted(set(breakpoints))
    automatic = None if options.get("mode") == "explicit" else _automatic_mark(messages, tool_count, ttl)
    if automatic is None or (automatic.message, automatic.part) in places:
        return tuple(_explicit(place, ttl) for place in places[-MAX_WRITES:])
    kept = [_explicit(place, ttl) for place in places[1 - MAX_WRITES :]]
    return tuple(sorted([*kept, automatic], key=_prompt_order))


def _explicit(place: tuple[int, int | None], ttl: str | None) -> CacheMark:
    return CacheMark(message=place[0], part=place[1], evidence="explicit", ttl=ttl)


def _automatic_mark(messages: Sequence[Message], tool_count: int, ttl: str | None) -> CacheMark | None:
    """After the last turn that has calls, or the last part of the last that has content; else after the last tool."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.tool_calls:
            return CacheMark(message=index, evidence="automatic", ttl=ttl)
        if message.content:
            return CacheMark(message=index, part=len(message.content) - 1, evidence="automatic", ttl=ttl)
    if tool_count:
        return CacheMark(message=None, part=tool_count - 1, evidence="automatic", ttl=ttl)
    return None


def _prompt_order(mark: CacheMark) -> tuple[bool, int, bool, int]:
    """Tools come first, a whole message after its parts."""
    return (mark.message is not None, mark.message or 0, mark.part is None, mark.part or 0)
