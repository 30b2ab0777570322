"""The last step between the engine and the protocols: an answer's text through the family's output parser.

Stop strings have been matched by then, on the raw text of each channel, inside tool calls too (decision 6).
"""

from __future__ import annotations

import msgspec

from ninfer_core.api.frontend import ChannelText, OutputParser, ParsedToolCall
from ninfer_core.api.service import Finished, GenerationEvent, TextDelta, ToolCallDelta


class OutputStage:
    """Events of one answer as the engine gives them -> as protocols see them, calls before the end (TOOL-14)."""

    def __init__(self, parser: OutputParser) -> None:
        self._parser = parser
        self._calls = 0

    def push(self, event: GenerationEvent) -> tuple[GenerationEvent, ...]:
        """What `event` makes certain; none for text that may yet be a call. Raises what the parser raises."""
        match event:
            case TextDelta():
                return self._events(self._parser.push(ChannelText(event.channel, event.text)))
            case Finished():
                last = self._events(self._parser.finish())
                return (*last, msgspec.structs.replace(event, tool_calls=self._parser.report))
            case _:
                return (event,)

    def _events(self, outputs: tuple[ChannelText | ParsedToolCall, ...]) -> tuple[GenerationEvent, ...]:
        return tuple(self._event(output) for output in outputs)

    def _event(self, output: ChannelText | ParsedToolCall) -> GenerationEvent:
        if isinstance(output, ChannelText):
            return TextDelta(channel=output.channel, text=output.text)
        index = self._calls
        self._calls += 1
        return ToolCallDelta(index=index, name=output.name, arguments=output.arguments)
