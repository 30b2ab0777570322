"""The last step between the engine and the protocols: an answer's text through the family's output parser.

Stop strings have been matched by then, on the raw text of each channel, inside tool calls too (decision 6).
"""

from __future__ import annotations

import msgspec

from ninfer_core.api.frontend import ChannelText, OutputParser, ParsedToolCall
from ninfer_core.api.service import Finished, GenerationEvent, LiveTimings, TextDelta, ToolCallDelta


class OutputStage:
    """Events of one answer as the engine gives them -> as protocols see them, calls before the end (TOOL-14)."""

    def __init__(self, parser: OutputParser) -> None:
        self._parser = parser
        self._calls = 0

    def push(self, event: GenerationEvent) -> tuple[GenerationEvent, ...]:
        """What `event` makes certain; none for text that may yet be a call. Raises what the parser raises."""
        match event:
            case TextDelta():
                return self._events(self._parser.push(ChannelText(event.channel, event.text)), event.live)
            case Finished():
                last = self._events(self._parser.finish(), _live(event))
                return (*last, msgspec.structs.replace(event, tool_calls=self._parser.report))
            case _:
                return (event,)

    def _events(
        self, outputs: tuple[ChannelText | ParsedToolCall, ...], live: LiveTimings | None
    ) -> tuple[GenerationEvent, ...]:
        """Text that was held back counts as of the event that let it go (contract OBS-14)."""
        return tuple(self._event(output, live) for output in outputs)

    def _event(self, output: ChannelText | ParsedToolCall, live: LiveTimings | None) -> GenerationEvent:
        if isinstance(output, ChannelText):
            return TextDelta(channel=output.channel, text=output.text, live=live)
        index = self._calls
        self._calls += 1
        return ToolCallDelta(index=index, name=output.name, arguments=output.arguments)


def _live(finished: Finished) -> LiveTimings:
    return LiveTimings(
        output_tokens=finished.usage.output_tokens,
        prompt_seconds=finished.timings.prompt_seconds,
        generation_seconds=finished.timings.generation_seconds,
    )
