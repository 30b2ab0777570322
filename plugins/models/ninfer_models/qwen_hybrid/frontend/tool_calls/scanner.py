"""What looks for calls in the text of one channel, and the text in front of a marker."""

from __future__ import annotations

from typing import Protocol

from ninfer_core.api import FallbackReason
from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import BLANK, unfinished_tag
from ninfer_models.qwen_hybrid.frontend.tool_calls.reader import ReadCall


class Scanner(Protocol):
    """Text of one channel in any cuts -> text that is certain, and the calls among it once all has been read."""

    marker_seen: bool
    calls: list[ReadCall]
    """Complete once `finish` has returned; before that they may still turn into text."""

    @property
    def fallback_reason(self) -> FallbackReason: ...

    def push(self, text: str) -> str: ...

    def finish(self) -> str:
        """The channel ends here."""
        ...

    def give_up(self) -> str:
        """Calls are no longer possible: the text of everything held; `calls` is empty."""
        ...


class PlainText:
    """Text up to the next marker. Blanks before a possible marker are held: they go when a call follows
    (contract TOOL-18)."""

    def __init__(self, markers: tuple[str, ...]) -> None:
        self._markers = markers
        self._blanks: list[str] = []
        self._tail = ""

    def push(self, text: str) -> tuple[str, str | None, str]:
        """-> text that is certain, the first marker or None, and the text after the marker."""
        text, self._tail = self._tail + text, ""
        at, marker = self._first_marker(text)
        if marker is not None:
            return self.push_unmarked(text[:at]), marker, text[at + len(marker) :]
        cut = unfinished_tag(text, 0, self._markers)
        self._tail = text[cut:]
        return self.push_unmarked(text[:cut]), None, ""

    def push_unmarked(self, text: str) -> str:
        """Text in which markers mean nothing -> text that is certain."""
        kept = text.rstrip(BLANK)
        given = self.take_blanks() + kept if kept else ""
        if len(kept) < len(text):
            self._blanks.append(text[len(kept) :])
        return given

    @property
    def blanks(self) -> str:
        return "".join(self._blanks)

    def take_blanks(self) -> str:
        """The blanks directly before the marker, or held at the end; they are no longer held."""
        blanks = self.blanks
        self._blanks.clear()
        return blanks

    def take_held(self) -> str:
        held = self.take_blanks() + self._tail
        self._tail = ""
        return held

    def _first_marker(self, text: str) -> tuple[int, str | None]:
        found = [(at, marker) for marker in self._markers if (at := text.find(marker)) >= 0]
        return min(found, default=(-1, None))
