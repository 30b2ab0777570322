"""A frontend for token ids that are bytes, and answers of such tokens that are known beforehand."""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable

from ninfer_core.api.frontend import (
    ChannelText,
    OutputFormat,
    ParsedToolCall,
    PreparedPrompt,
    SamplingPresets,
    TemplateCapabilities,
    ThinkingDefaults,
    ToolCallReport,
)
from ninfer_core.api.request import Channel, GenerationRequest, SamplingOptions, TemplateOptions, ToolDefinition

STOP_TOKEN = 256
THINK_END_TOKEN = 257
VOCABULARY_ROWS = 258
"""Token ids below 256 are bytes of UTF-8."""

CONTROL_IDS = (*b" Enough, abca.", THINK_END_TOKEN)
"""What closes thinking at its budget. Has text that stop strings of tests hit."""

_GROUPS = tuple(text.encode() for text in ("abca", "ab c", "aébc", "漢a", "🚀", "éa\n", "cabc", "aaaa", "bcab", "b漢"))
"""Text of four bytes each, poor in letters so that stop strings match often."""


def answer_token(seed: int, position: int) -> int:
    """The token at `position` of the answer with this seed: mostly text that common stop strings hit, sometimes a
    closing think tag, a stop token or a byte that is no UTF-8."""
    draw = random.Random(seed * 1_000_003 + position // 4)
    kind = draw.random()
    if kind < 0.03:
        return STOP_TOKEN if position % 4 == 0 else ord("z")
    if kind < 0.10:
        return THINK_END_TOKEN if position % 4 == 1 else ord("y")
    if kind < 0.13:
        return 0xFF
    return draw.choice(_GROUPS)[position % 4]


class SimulatedDecoder:
    """Bytes to text, and the closing think tag as one token."""

    def __init__(self, initial_channel: Channel) -> None:
        self.channel: Channel = initial_channel
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> tuple[ChannelText, ...]:
        if token_id == THINK_END_TOKEN and self.channel == "reasoning":
            held = self.finish()
            self.channel = "content"
            return held
        if token_id >= 256:
            return ()
        return self._text(self._bytes.decode(bytes([token_id])))

    def finish(self) -> tuple[ChannelText, ...]:
        text = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return self._text(text)

    def _text(self, text: str) -> tuple[ChannelText, ...]:
        return (ChannelText(self.channel, text),) if text else ()


class PlainTextParser:
    """The output parser of a template without tools: everything is text."""

    def __init__(self) -> None:
        self.report = ToolCallReport()

    def push(self, piece: ChannelText) -> tuple[ChannelText | ParsedToolCall, ...]:
        return (piece,)

    def finish(self) -> tuple[ChannelText | ParsedToolCall, ...]:
        return ()


class SimulatedFormat:
    """Implements OutputFormat. Ids are bytes, whatever a vocabulary says."""

    def decoder(self, token_bytes: Callable[[int], bytes], initial_channel: Channel) -> SimulatedDecoder:
        return SimulatedDecoder(initial_channel)

    def parser(self, tools: tuple[ToolDefinition, ...], *, tolerant: bool) -> PlainTextParser:
        return PlainTextParser()


class SimulatedFrontend:
    """Implements Frontend for token ids that are bytes. A prompt is the messages' text, UTF-8 encoded."""

    def __init__(self) -> None:
        self.capabilities = TemplateCapabilities(
            thinking_toggle=True, efforts=(), default_effort=None, preserve_thinking=False, tools=False
        )
        preset = SamplingOptions(
            temperature=1.0, top_p=0.95, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0
        )
        self.presets = SamplingPresets(thinking=preset, non_thinking=preset)
        self.output_format: OutputFormat = SimulatedFormat()
        self.stop_token_ids: tuple[int, ...] = (STOP_TOKEN,)
        self.token_domain = VOCABULARY_ROWS
        self.thinking_control_ids: tuple[int, ...] = CONTROL_IDS

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        text = "\n".join(f"{message.role}: {message.text}" for message in request.messages)
        asked = request.template.enable_thinking
        thinking = defaults.enable_thinking if asked is None else asked
        return PreparedPrompt(
            text=text,
            token_ids=tuple(text.encode()),
            initial_channel="reasoning" if thinking else "content",
            resolved=TemplateOptions(enable_thinking=thinking, preserve_thinking=defaults.preserve_thinking),
        )

    def fewest_tokens(self, characters: int) -> int:
        return characters // 4

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""
