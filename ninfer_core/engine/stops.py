"""Stop strings over one channel's text as it appears, piece by piece.

The match that is complete first wins, and of two complete at the same character the longer one: a rule that
gives the same text whatever pieces the text came in (decision 6).
"""

from __future__ import annotations


class _Pattern:
    """Knuth-Morris-Pratt over one stop string. The border table grows only as far as text has matched, so a long
    stop string costs nothing up front."""

    __slots__ = ("_borders", "matched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._borders: list[int] = []

    def advance(self, character: str) -> bool:
        """Take one character; whether the whole string has now been seen."""
        while self.matched and self.text[self.matched] != character:
            self.matched = self._borders[self.matched - 1]
        if self.text[self.matched] != character:
            return False
        self.matched += 1
        if self.matched > len(self._borders):
            self._borders.append(self._next_border())
        return self.matched == len(self.text)

    def _next_border(self) -> int:
        """Length of the longest proper border of the matched prefix."""
        if self.matched == 1:
            return 0
        character = self.text[self.matched - 1]
        border = self._borders[-1]
        while border and self.text[border] != character:
            border = self._borders[border - 1]
        return border + (self.text[border] == character)


class StopMatcher:
    """Passes text on, holding back only what may still become a stop string."""

    __slots__ = ("_held", "_patterns", "stopped_by")

    def __init__(self, stops: tuple[str, ...]) -> None:
        assert all(stops), "an empty stop string"
        self._patterns = tuple(_Pattern(stop) for stop in stops)
        self._held = ""
        self.stopped_by: str | None = None

    def push(self, text: str) -> str:
        """The text that is now certain. Once `stopped_by` is set, nothing more comes out."""
        if self.stopped_by is not None:
            return ""
        if not self._patterns:
            return text
        window = self._held + text
        for index, character in enumerate(text, start=len(self._held) + 1):
            complete = [pattern.text for pattern in self._patterns if pattern.advance(character)]
            if complete:
                self.stopped_by = max(complete, key=len)
                self._held = ""
                return window[: index - len(self.stopped_by)]
        held = max(pattern.matched for pattern in self._patterns)
        self._held = window[len(window) - held :]
        return window[: len(window) - held]

    def flush(self) -> str:
        """The channel has ended without a match: what was held is text."""
        held, self._held = self._held, ""
        return held
