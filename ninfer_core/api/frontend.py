"""A family's host side: prompts in, text out. Never imports torch.

The front process has a `Frontend`, and makes the parsers of answers with its `output_format`. The engine process has an
`OutputVocabulary` alone, and makes the decoders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from ninfer_core.api.request import Channel, GenerationRequest, SamplingOptions, TemplateOptions, ToolDefinition

FallbackReason = Literal[
    "none",
    "malformed_structure",
    "duplicate_parameter",
    "invalid_tool_name",
    "undeclared_tool",
    "trailing_content",
]
"""Why a region that looked like tool calls is text after all (contract TOOL-12)."""


FrontierKind = Literal["tools", "system", "message", "turn", "generation", "mark"]


class Frontier(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a prompt where a checkpoint may be taken: tokenizing what is before it, alone, gives exactly the
    first `tokens` ids (contract PCACHE-7, EXEC-12, EXEC-13).

    `tools` is after the tool definitions, `system` after the leading system turn, `message` after the message of
    that index in the request, `turn` before the first assistant turn after the last question, `generation` before
    the turn that the model writes, `mark` where the CacheMark with that `message` and `part` asks for one. Both are
    None for the other kinds. Kinds may share a place.
    """

    kind: FrontierKind
    tokens: int
    message: int | None = None
    part: int | None = None


class TemplateCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the artifact's own template can do, found from its bytes at start (contract TMPL-1).

    `renderer` is `structured` where the family knows the template's structure and writes the same bytes by itself:
    then system turns may stand anywhere, a final assistant turn can be continued, and prompts have frontiers. With
    `jinja` the template alone renders (decision 20), and `renderer_reason` says where its structure differs.
    """

    thinking_toggle: bool
    efforts: tuple[str, ...]
    default_effort: str | None
    preserve_thinking: bool
    tools: bool
    renderer: Literal["structured", "jinja"] = "jinja"
    renderer_reason: str = ""


class SamplingPresets(msgspec.Struct, frozen=True, kw_only=True):
    """The artifact's own sampler settings by resolved thinking mode (contract OPT-46, decision 21)."""

    thinking: SamplingOptions
    non_thinking: SamplingOptions


class ThinkingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own choice where a request says nothing. `thinking_budget` is in tokens, None without a bound; it
    is the engine's, and changes no prompt (contract TMPL-8)."""

    enable_thinking: bool = True
    preserve_thinking: bool = False
    thinking_budget: int | None = None


class PreparedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered and tokenized request. `resolved` has no None left in what the template exposes.

    `frontiers` are in the order of their `tokens`; there are none where the template alone renders.
    """

    text: str
    token_ids: tuple[int, ...]
    initial_channel: Channel
    resolved: TemplateOptions
    frontiers: tuple[Frontier, ...] = ()


class ChannelText(NamedTuple):
    """Text that is certain: it will not be taken back and belongs to `channel`."""

    channel: Channel
    text: str


class OutputDecoder(Protocol):
    """Token ids of one answer -> text of its two channels, holding back only what is not certain yet:
    an incomplete UTF-8 sequence, a possible start of the closing think tag, framing white space."""

    channel: Channel
    """The channel that the next token will count for (reasoning usage, contract RESP-56)."""

    def push(self, token_id: int) -> tuple[ChannelText, ...]: ...

    def finish(self) -> tuple[ChannelText, ...]:
        """The answer has ended: give out what was held; an incomplete UTF-8 sequence becomes U+FFFD."""
        ...


class ToolCallReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tool calls of one answer; classification only, no text (contract TOOL-13).

    `empty_arguments_omitted` and `schema_mismatches` count arguments of structured calls (TOOL-4, TOOL-6).
    """

    marker_seen: bool = False
    structured_calls: int = 0
    empty_arguments_omitted: int = 0
    schema_mismatches: int = 0
    fallback_reason: FallbackReason = "none"


class ParsedToolCall(NamedTuple):
    """One call of the model's. `arguments` are JSON values in the order they were written (contract CHAT-41)."""

    name: str
    arguments: dict[str, Any]


class OutputParser(Protocol):
    """Channel text of one answer, after stop strings -> text to show and tool calls, with the least delay: only
    what may still belong to a call is held back (contract TOOL-14)."""

    report: ToolCallReport
    """Complete once `finish` has returned."""

    def push(self, piece: ChannelText) -> tuple[ChannelText | ParsedToolCall, ...]: ...

    def finish(self) -> tuple[ChannelText | ParsedToolCall, ...]:
        """The answer has ended, for whatever reason: calls if what was held is calls, else its text, every byte."""
        ...


class OutputFormat(Protocol):
    """How a family's generated text is read, whatever the artifact: the one maker of decoders and parsers."""

    def decoder(self, token_bytes: Callable[[int], bytes], initial_channel: Channel) -> OutputDecoder:
        """A decoder for ids that stand for any bytes."""
        ...

    def parser(self, tools: tuple[ToolDefinition, ...], *, tolerant: bool) -> OutputParser:
        """A parser for one answer. `tools` is the effective set of the request; with none everything is text
        (contract TOOL-11, TOOL-16). `tolerant` also takes calls whose wrapper is malformed (TOOL-15)."""
        ...


class OutputVocabulary(Protocol):
    """What an artifact's generated ids are: all of a family's host side that the engine process has."""

    output_format: OutputFormat
    stop_token_ids: tuple[int, ...]
    token_domain: int
    """One more than the largest id that is a token, at most the model's `vocabulary_rows`: sampling uses the logits of
    `[0, token_domain)`. The one place that says so."""
    thinking_control_ids: tuple[int, ...]
    """Guidance and close marker that end thinking at its budget (contract TMPL-12): checked at start to decode to
    that text and to hold no stop token. Those of a frontend are empty when the template has no thinking."""

    def token_bytes(self, token_id: int) -> bytes:
        """What a generated id adds to the text of an answer; nothing for ids that are withheld."""
        ...


class Frontend(OutputVocabulary, Protocol):
    """The whole host side, built once from the artifact's resources, in the front process only (inline, and where
    answers are scripted, the engine shares or has one)."""

    capabilities: TemplateCapabilities
    presets: SamplingPresets

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        """Render with the artifact's template and tokenize. A prompt that is sure to have more than `most_tokens` may
        be refused once it is rendered, with ContextLengthExceeded: tokenizing megabytes takes seconds.

        Raises InvalidPrompt for a conversation the template refuses, RequestError with the codes
        `reasoning_effort_not_supported` and `conflicting_template_option` for its options (TMPL-3, 5).
        """
        ...

    def fewest_tokens(self, characters: int) -> int:
        """A lower bound of the tokens of a prompt whose messages have this much text, white space around each
        message not counted. Cheap: it lets a prompt be refused that is far too long to be looked at."""
        ...
