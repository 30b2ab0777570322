"""One generation read to its end, for answers that are not streamed."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ninfer_core.api.request import Channel
from ninfer_core.api.service import Finished, Generation, TextDelta, ToolCallDelta


class WholeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All text of each channel, and the calls in their order."""

    reasoning: str
    content: str
    calls: tuple[ToolCallDelta, ...]
    finished: Finished


async def whole_answer(generation: Generation, on_text: Callable[[Channel, str], None] | None = None) -> WholeAnswer:
    """Read `generation` and close it, however it ends; `on_text` sees text as it comes. Raises what the generation
    does, a RequestError."""
    text: dict[Channel, list[str]] = {"reasoning": [], "content": []}
    calls: list[ToolCallDelta] = []
    finished: Finished | None = None
    try:
        async for event in generation:
            match event:
                case TextDelta():
                    text[event.channel].append(event.text)
                    if on_text is not None:
                        on_text(event.channel, event.text)
                case ToolCallDelta():
                    calls.append(event)
                case Finished():
                    finished = event
    finally:
        await generation.aclose()
    assert finished is not None, "a generation that raised nothing ends with Finished"
    return WholeAnswer(
        reasoning="".join(text["reasoning"]), content="".join(text["content"]), calls=tuple(calls), finished=finished
    )
