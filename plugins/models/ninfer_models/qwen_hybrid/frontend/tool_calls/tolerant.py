"""The tolerant reading (contract TOOL-15): every complete call of a declared tool counts, although its wrapper is
broken or text stands around it; that text stays text. Nothing unfinished is ever a call.

What has no safe reading is read strictly from there on, so that a call is never taken out of the middle of a broken
value: a call that breaks off after its first parameter, and a complete call that Markdown quotes as code. Hence the
tolerant reading finds every call that the strict one finds.
"""

from __future__ import annotations

from collections.abc import Callable

from ninfer_core.api import FallbackReason
from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import (
    CALL_CLOSE,
    CALL_OPEN,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    skip_blank,
)
from ninfer_models.qwen_hybrid.frontend.tool_calls.markdown import CodeTracker
from ninfer_models.qwen_hybrid.frontend.tool_calls.reader import ReadCall
from ninfer_models.qwen_hybrid.frontend.tool_calls.scanner import PlainText
from ninfer_models.qwen_hybrid.frontend.tool_calls.strict import StrictScanner
from ninfer_models.qwen_hybrid.frontend.tool_calls.tolerant_reader import TolerantReader
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import DeclaredTools

_OPENERS = (CALL_OPEN, FUNCTION_OPEN)
_CLOSERS = (CALL_CLOSE, FUNCTION_CLOSE)


class TolerantScanner:
    """A Scanner. With `only_at_end`, calls that text follows are text as well (decision 1)."""

    def __init__(self, tools: DeclaredTools, *, only_at_end: bool) -> None:
        self.marker_seen = False
        self.calls: list[ReadCall] = []
        self._tools = tools
        self._only_at_end = only_at_end
        self._plain = PlainText(_OPENERS)
        self._code = CodeTracker()
        self._reason: FallbackReason = "none"
        self._given: list[str] = []
        self._recovered: list[str] = []
        self._candidate: list[str] = []
        self._reader = TolerantReader(tools, CALL_OPEN)
        self._opener = CALL_OPEN
        self._in_code = False
        self._tail = ""
        self._strict = StrictScanner(tools)
        self._step: Callable[[str], str] = self._text

    @property
    def fallback_reason(self) -> FallbackReason:
        if self.calls:
            return "none"
        return self._strict.fallback_reason if self._reason == "none" else self._reason

    def push(self, text: str) -> str:
        while text:
            text = self._step(text)
        return self._take_given()

    def finish(self) -> str:
        if self._candidate:
            self._strictly(self._broken("malformed_structure"))
        if self._step == self._strictly:
            self._give(self._strict.finish())
            self.calls += self._strict.calls
        elif self._step == self._text or self._tail:
            self._give(self._plain.take_held() + self._tail)
        return self._take_given()

    def give_up(self) -> str:
        self.calls.clear()
        held = (*self._recovered, self._plain.take_held(), *self._candidate, self._tail, self._strict.give_up())
        self._recovered.clear()
        self._candidate.clear()
        self._tail = ""
        self._step = self._strictly
        return "".join(held)

    # Steps: read the text and return what of it the next step has to read.

    def _text(self, text: str) -> str:
        certain, opener, after = self._plain.push(text)
        self._give(certain)
        if opener is not None:
            self._open(opener)
        return after

    def _in_candidate(self, text: str) -> str:
        self._candidate.append(text)
        self._reader.push(text)
        if not self._reader.done:
            return ""
        reader, rest = self._reader, self._reader.rest
        failure = reader.failure or reader.refused
        if reader.failure is not None and reader.has_parameters:
            return self._broken(reader.failure)
        if failure is None and self._in_code:
            return self._broken("none")
        whole = "".join(self._candidate)
        self._candidate.clear()
        read = whole[: len(whole) - len(rest)]
        if failure is None:
            self._recover(read)
        else:
            if self._opener == CALL_OPEN or reader.has_parameters:
                self._note(failure)
            self._step = self._text
            self._give(self._plain.push_unmarked(read))
        return rest

    def _after_call(self, text: str) -> str:
        """Blanks, repeated closing tags and further calls; anything else is text again."""
        text = self._tail + text
        self._tail = ""
        at = skip_blank(text, 0)
        self._plain.push_unmarked(text[:at])
        text = text[at:]
        for tag in (*_OPENERS, *_CLOSERS):
            if not text.startswith(tag):
                continue
            if tag in _OPENERS:
                self._open(tag)
            else:
                self._recovered.append(self._plain.take_blanks() + tag)
            return text[len(tag) :]
        if any(tag.startswith(text) for tag in (*_OPENERS, *_CLOSERS)):
            self._tail = text
            return ""
        self._step = self._text
        return text

    def _strictly(self, text: str) -> str:
        self._give(self._strict.push(text))
        return ""

    # What the steps do.

    def _open(self, opener: str) -> None:
        self.marker_seen |= opener == CALL_OPEN
        self._opener = opener
        self._in_code = self._code.quotes_after(self._plain.blanks)
        self._candidate.append(opener)
        self._reader = TolerantReader(self._tools, opener)
        self._step = self._in_candidate

    def _recover(self, read: str) -> None:
        assert self._reader.call is not None
        self.marker_seen = True
        self.calls.append(self._reader.call)
        self._recovered.append(self._plain.take_blanks() + read)
        self._step = self._after_call

    def _broken(self, reason: FallbackReason) -> str:
        """Read the candidate, and all that follows, strictly."""
        self._note(reason)
        held = self._plain.take_blanks() + "".join(self._candidate)
        self._candidate.clear()
        self._step = self._strictly
        return held

    def _note(self, reason: FallbackReason) -> None:
        if self._reason == "none":
            self._reason = reason

    def _give(self, text: str) -> None:
        if not text:
            return
        if self._only_at_end and self.calls:
            self.calls.clear()
            self._given += self._recovered
            self._recovered.clear()
        self._code.push(text)
        self._given.append(text)

    def _take_given(self) -> str:
        given = "".join(self._given)
        self._given.clear()
        return given
