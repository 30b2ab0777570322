"""The family's OutputParser: text of both channels -> text to show and tool calls."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.api import ChannelText, OutputParser, ParsedToolCall, ToolCallReport, ToolDefinition
from ninfer_models.qwen_hybrid.frontend.tool_calls.scanner import Scanner
from ninfer_models.qwen_hybrid.frontend.tool_calls.strict import StrictScanner
from ninfer_models.qwen_hybrid.frontend.tool_calls.tolerant import TolerantScanner
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import DeclaredTools

Output = tuple[ChannelText | ParsedToolCall, ...]

_SLICE_CHARACTERS = 4096
"""Scanners copy what is left of a piece after every call in it; short slices keep that linear in the answer."""


def build_output_parser(tools: Sequence[ToolDefinition], *, tolerant: bool) -> OutputParser:
    """The parser that this effective tool set and mode need (contract TOOL-15, TOOL-16)."""
    if not tools:
        return TextParser()
    declared = DeclaredTools(tools)
    if not tolerant:
        return ToolCallParser(StrictScanner(declared))
    return TolerantToolCallParser(
        content=TolerantScanner(declared, only_at_end=False), reasoning=TolerantScanner(declared, only_at_end=True)
    )


class TextParser:
    """No tool may be called: everything is text."""

    def __init__(self) -> None:
        self.report = ToolCallReport()

    def push(self, piece: ChannelText) -> Output:
        return (piece,) if piece.text else ()

    def finish(self) -> Output:
        return ()


class ToolCallParser:
    """Calls are looked for in the answer; reasoning passes (decision 1)."""

    def __init__(self, content: Scanner) -> None:
        self._content = content
        self.report = ToolCallReport()

    def push(self, piece: ChannelText) -> Output:
        if piece.channel == "reasoning":
            return self._reasoning(piece.text)
        return _text(piece, _pushed(self._content, piece.text))

    def finish(self) -> Output:
        return self._finished(self._content, ChannelText("content", self._content.finish()))

    def _reasoning(self, text: str) -> Output:
        return (ChannelText("reasoning", text),) if text else ()

    def _finished(self, scanner: Scanner, last: ChannelText) -> Output:
        self.report = ToolCallReport(
            marker_seen=scanner.marker_seen,
            structured_calls=len(scanner.calls),
            empty_arguments_omitted=sum(call.empty_arguments_omitted for call in scanner.calls),
            schema_mismatches=sum(call.schema_mismatches for call in scanner.calls),
            fallback_reason=scanner.fallback_reason,
        )
        calls = tuple(call.parsed() for call in scanner.calls)
        return ((last,) if last.text else ()) + calls


class TolerantToolCallParser(ToolCallParser):
    """Calls that end a thinking block count too when no answer follows it. An answer turns them into text."""

    def __init__(self, *, content: Scanner, reasoning: Scanner) -> None:
        super().__init__(content)
        self._thinking = reasoning
        self._answered = False

    def push(self, piece: ChannelText) -> Output:
        if self._answered or piece.channel == "reasoning" or not piece.text:
            return super().push(piece)
        self._answered = True
        held = self._thinking.give_up()
        return ((ChannelText("reasoning", held),) if held else ()) + super().push(piece)

    def finish(self) -> Output:
        if self._answered:
            return super().finish()
        last = ChannelText("reasoning", self._thinking.finish())
        if self._thinking.calls:
            return self._finished(self._thinking, last)
        return ((last,) if last.text else ()) + super().finish()

    def _reasoning(self, text: str) -> Output:
        given = _pushed(self._thinking, text)
        return (ChannelText("reasoning", given),) if given else ()


def _pushed(scanner: Scanner, text: str) -> str:
    if len(text) <= _SLICE_CHARACTERS:
        return scanner.push(text)
    return "".join(
        scanner.push(text[start : start + _SLICE_CHARACTERS]) for start in range(0, len(text), _SLICE_CHARACTERS)
    )


def _text(piece: ChannelText, text: str) -> Output:
    return (ChannelText(piece.channel, text),) if text else ()
