"""Where the boundaries that a client marks lie in a rendering (contract PCACHE-7, ANTH-24)."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.api import CacheMark
from ninfer_models.qwen_hybrid.frontend.renderer.segments import Mark, MediaPad, RequestText, Segment, Source


def with_cache_marks(
    segments: Sequence[Segment], marks: Sequence[Mark], cache_marks: Sequence[CacheMark]
) -> tuple[Mark, ...]:
    """`marks` and one more for each cache mark that has a place, in the order of the prompt.

    After a part is directly after its last character that is written, before whatever closes the turn. After a tool
    definition is after the line feed that ends its line; after the last one, after all that is said about tools. A part
    of which nothing is written, like white space at an end, lies where the part before it ends.
    """
    if not cache_marks:
        return tuple(marks)
    found = list(marks)
    for wanted in dict.fromkeys((mark.message, mark.part) for mark in cache_marks):
        place = _place(segments, marks, *wanted)
        if place is not None:
            found.append(Mark("mark", place, *wanted))
    return tuple(sorted(found, key=lambda mark: mark.segment))


def _place(segments: Sequence[Segment], marks: Sequence[Mark], message: int | None, part: int | None) -> int | None:
    if message is None:
        return _after_tool(segments, marks, part)
    if part is None:
        return next((mark.segment for mark in marks if (mark.kind, mark.message) == ("message", message)), None)
    last = _last_written(segments, "content", message, part)
    if last is None:
        return None
    # A pad is closed by a token of its own.
    return last + 2 if isinstance(segments[last], MediaPad) else last + 1


def _after_tool(segments: Sequence[Segment], marks: Sequence[Mark], part: int | None) -> int | None:
    last = _last_written(segments, "tool_definition", None, part)
    if last is None:
        return None
    following = _source(segments[last + 2]) if last + 2 < len(segments) else None
    if following is not None and following.kind == "tool_definition":
        return last + 2
    return next(mark.segment for mark in marks if mark.kind == "tools")


def _last_written(segments: Sequence[Segment], kind: str, message: int | None, part: int | None) -> int | None:
    """Index of the last segment from that part, or from one before it."""
    for index in range(len(segments) - 1, -1, -1):
        source = _source(segments[index])
        if source is None or (source.kind, source.message) != (kind, message):
            continue
        if part is None or source.part is None or source.part <= part:
            return index
    return None


def _source(segment: Segment) -> Source | None:
    return segment.source if isinstance(segment, RequestText | MediaPad) else None
