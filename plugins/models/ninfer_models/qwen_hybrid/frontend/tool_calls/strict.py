"""The strict reading: from the first `<tool_call>` to the end of the answer there is nothing but calls, or all of it
is text (contract TOOL-10 to TOOL-13, decisions 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable

from ninfer_core.api import FallbackReason
from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import CALL_OPEN, skip_blank
from ninfer_models.qwen_hybrid.frontend.tool_calls.reader import CallReader, ReadCall
from ninfer_models.qwen_hybrid.frontend.tool_calls.scanner import PlainText
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import DeclaredTools


class StrictScanner:
    """A Scanner. As soon as a region is known to be text it is given out, and everything after it passes at once."""

    def __init__(self, tools: DeclaredTools) -> None:
        self.marker_seen = False
        self.fallback_reason: FallbackReason = "none"
        self.calls: list[ReadCall] = []
        self._tools = tools
        self._plain = PlainText((CALL_OPEN,))
        self._region: list[str] = []
        self._reader: CallReader | None = None
        self._between = ""
        self.push: Callable[[str], str] = self._text

    def finish(self) -> str:
        if not self._region:
            return self.give_up()
        if self._reader is None and not self._between:
            self._region.clear()
            self._plain.take_blanks()
            return ""
        return self._fall_back("malformed_structure")

    def give_up(self) -> str:
        held = self._plain.take_blanks() + "".join(self._region) + self._plain.take_held()
        self.calls.clear()
        self._region.clear()
        self.push = _pass
        return held

    def _text(self, text: str) -> str:
        certain, marker, after = self._plain.push(text)
        if marker is None:
            return certain
        self.marker_seen = True
        self._region.append(marker)
        self._reader = CallReader(self._tools)
        self.push = self._in_region
        return certain + self._in_region(after)

    def _in_region(self, text: str) -> str:
        self._region.append(text)
        while text:
            if self._reader is None:
                text = self._after_call(text)
                if self.fallback_reason != "none":
                    return self.give_up()
                continue
            self._reader.push(text)
            if not self._reader.done:
                return ""
            if self._reader.failure is not None:
                return self._fall_back(self._reader.failure)
            assert self._reader.call is not None
            self.calls.append(self._reader.call)
            text, self._reader = self._reader.rest, None
        return ""

    def _after_call(self, text: str) -> str:
        """Another call may follow, and blanks. -> the text after its marker."""
        text = self._between + text
        self._between = ""
        text = text[skip_blank(text, 0) :]
        if text.startswith(CALL_OPEN):
            self._reader = CallReader(self._tools)
            return text[len(CALL_OPEN) :]
        if CALL_OPEN.startswith(text):
            self._between = text
        else:
            self.fallback_reason = "trailing_content"
        return ""

    def _fall_back(self, reason: FallbackReason) -> str:
        self.fallback_reason = reason
        return self.give_up()


def _pass(text: str) -> str:
    return text
