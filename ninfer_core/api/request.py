"""The neutral request: what every protocol lowers to and every family's frontend renders."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Role = Literal["system", "developer", "user", "assistant", "tool"]

Channel = Literal["reasoning", "content"]
"""Where generated text goes: inside the thinking block, or the answer."""


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    text: str


class MediaPart(msgspec.Struct, frozen=True, kw_only=True, tag="media"):
    """An image or a video where it was sent. `source` is an http(s) URL or a data URI, not fetched yet."""

    modality: Literal["image", "video"]
    source: str


Part = TextPart | MediaPart


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an earlier turn. `arguments` keeps the member order it was received in (contract CHAT-40)."""

    name: str
    arguments: dict[str, Any]
    call_id: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of history. `reasoning` and `tool_calls` belong to assistant turns, `call_id` to tool turns."""

    role: Role
    content: tuple[Part, ...] = ()
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None

    @property
    def text(self) -> str:
        """The text parts joined with no separator (contract CHAT-4)."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """`definition` is the object a prompt shows, exactly as received; `name` and `parameters` are read from it."""

    name: str
    parameters: dict[str, Any]
    definition: dict[str, Any]


class TemplateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client said about thinking; None means that it said nothing (contract TMPL-2 to 7)."""

    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    preserve_thinking: bool | None = None


MAX_TOOLS = 1024
"""Of one request. Each is shown to the model in full; the largest sets of usual clients have a few hundred."""

TOP_K_CAP = 20
"""The most candidates that a draw considers (contract OPT-41); a `top_k` of 0 asks for it (contract CHAT-10)."""


class SamplingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sampler settings of one source (preset, flags or request); None leaves it to the source below (OPT-45)."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None


class CacheMark(msgspec.Struct, frozen=True, kw_only=True):
    """A boundary that a client would like the prompt to be kept at: a hint, which changes no token and promises
    nothing (contract PCACHE-3 to 8, ANTH-21 to 24).

    It is after part `part` of message `message`; with `part` None after the whole message. With `message` None it is
    after tool definition `part`. `evidence` is `automatic` where the protocol chose the place and not the client.
    `ttl` is in the client's own words.
    """

    message: int | None
    part: int | None = None
    evidence: Literal["explicit", "automatic"] = "explicit"
    ttl: str | None = None


class CacheSession(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation that a request belongs to, for reuse between its turns: a hint (contract RESP-65). With
    `replaces_endpoint` false it reads what the session left and leaves that as it was."""

    key: str
    replaces_endpoint: bool


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One generation, in no protocol's words.

    `stop` strings apply to the channels named in `stop_channels`. `max_output_tokens` None takes the
    server's default; 0 processes the prompt and generates nothing (contract CHAT-8). `thinking_budget` is the
    most tokens of thinking before it is closed (TMPL-10); None takes the server's default. `continue_final`
    leaves a final assistant message open, so that the answer goes on with its text (ANTH-3); thinking must be off.
    With `structural_marks` false no boundary is kept that `cache_marks` does not name (IMPL-15, IMPL-18).
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    template: TemplateOptions = TemplateOptions()
    sampling: SamplingOptions = SamplingOptions()
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_channels: tuple[Channel, ...] = ("reasoning", "content")
    thinking_budget: int | None = None
    continue_final: bool = False
    cache_marks: tuple[CacheMark, ...] = ()
    cache_session: CacheSession | None = None
    structural_marks: bool = True
