"""Whether a place in an answer is inside Markdown code, where a call is quoted and not meant (contract TOOL-20)."""

from __future__ import annotations

from dataclasses import dataclass, replace

_FENCES = ("```", "~~~")
_LINE_START_CHARACTERS = 8
"""Enough to see the three signs of a fence behind the few spaces that may stand before them."""


@dataclass(slots=True)
class CodeTracker:
    """Follows fences through text in any cuts; a backtick directly before a place counts as well."""

    _fence: str = ""
    _line_start: str = ""
    _last: str = ""

    def push(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        first, *others = text.split("\n")
        self._continue_line(first)
        for line in others:
            self._end_line()
            self._continue_line(line)

    def quotes_after(self, blanks: str) -> bool:
        """Whether what follows `blanks` here is quoted."""
        place = replace(self)
        place.push(blanks)
        return bool(place._fence or place._line_fence()) or place._last == "`"

    def _continue_line(self, text: str) -> None:
        self._line_start += text[: _LINE_START_CHARACTERS - len(self._line_start)]

    def _end_line(self) -> None:
        fence = self._line_fence()
        if not self._fence:
            self._fence = fence
        elif fence == self._fence:
            self._fence = ""
        self._line_start = ""

    def _line_fence(self) -> str:
        start = self._line_start.lstrip(" ")[:3]
        return start if start in _FENCES else ""
