"""What a protocol plugin is given: a service that prepares and generates, and typed events out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from ninfer_core.api.frontend import TemplateCapabilities, ToolCallReport
from ninfer_core.api.request import Channel, GenerationRequest, TemplateOptions

Scope = Mapping[str, object]
"""What ASGI says about one HTTP request."""

Result = TypeVar("Result")

FinishReason = Literal["stop_token", "stop_string", "output_limit", "context_capacity"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts by contract GEN-27 and RESP-56: `output_tokens` are accepted ids, a withheld stop token
    included; `reasoning_tokens` are counted as they are accepted, never by tokenizing text again.

    Under a `thinking_budget`, `model_thinking_tokens` are those that the model itself wrote into its thinking, and
    `thinking_control_tokens` those that were put in to close it when the budget was spent; both are output tokens
    (TMPL-13).
    """

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    thinking_budget: int | None = None
    model_thinking_tokens: int = 0
    thinking_control_tokens: int = 0

    @property
    def thinking_control_applied(self) -> bool:
        """Whether thinking was closed at its budget."""
        return self.thinking_control_tokens > 0


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Wall clock seconds. `prompt` runs from admission to the first committed token, `generation` from there
    to the last (contract OBS-4, OBS-5)."""

    queue_seconds: float
    prompt_seconds: float
    generation_seconds: float


class Speculation(msgspec.Struct, frozen=True, kw_only=True):
    """What drafting did for one answer (contract LOG-16).

    `rounds` had a drafter, `fallback_steps` of them no draft for this answer. `drafted_tokens` were checked, and
    `accepted_tokens` of these are in the answer; `accepted_per_position` counts the latter by their place in the round,
    as far as any round drafted.
    """

    rounds: int
    drafted_tokens: int
    accepted_tokens: int
    fallback_steps: int
    accepted_per_position: tuple[int, ...]


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """The request has its reservation; sent once, before any text."""

    prompt_tokens: int
    cached_tokens: int


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """`processed_tokens` of the prompt are done, the cached ones included, `seconds` after admission (OBS-10 to 13)."""

    processed_tokens: int
    seconds: float


class LiveTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer stood when text became certain: the clocks of Timings, and every token committed so far, also
    those whose text is held back (contract OBS-8, OBS-14)."""

    output_tokens: int
    prompt_seconds: float
    generation_seconds: float


class TextDelta(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """`live` is as of the latest token in `text`; None where nobody counted."""

    channel: Channel
    text: str
    live: LiveTimings | None = None


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, tag="tool_call"):
    """One whole call, after all text: calls are certain only when nothing follows them (contract TOOL-14).

    `index` counts the calls of the answer from 0; `arguments` keep the order they were written in (CHAT-41).
    """

    index: int
    name: str
    arguments: dict[str, Any]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The last event. `stop_string` is set exactly when `reason` is `stop_string`. `tool_calls` is what
    the output parser reports, None where none ran; `speculation` is None where there was no drafter, or no round."""

    reason: FinishReason
    stop_string: str | None
    usage: Usage
    timings: Timings
    tool_calls: ToolCallReport | None = None
    speculation: Speculation | None = None


GenerationEvent = Admitted | Progress | TextDelta | ToolCallDelta | Finished


class Generation(Protocol):
    """One accepted request. Iterating gives `Admitted`, one `Progress` or more, the last with the whole prompt and none
    going back, any number of `TextDelta`, any number of `ToolCallDelta`, one `Finished`; a failure is raised as a
    RequestError. `aclose` cancels what is still running and may be called at any
    time."""

    resolved: TemplateOptions
    """What the prompt was rendered with: no None left in what the template exposes."""

    def __aiter__(self) -> AsyncIterator[GenerationEvent]: ...

    async def aclose(self) -> None: ...


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The one model of this server under its public name (contract GEN-6, GEN-20)."""

    model_id: str
    max_context: int
    created_unix_seconds: int
    capabilities: TemplateCapabilities


class GenerationService(Protocol):
    """The engine as protocols see it."""

    model: ServedModel

    async def offload(self, work: Callable[[], Result]) -> Result:
        """Run `work` on one of the few threads that prepare prompts, and give or raise what it does.

        For whatever a protocol does with a large body: done on the event loop it would hold back the tokens of
        every other answer. Raises ServerOverloaded when as many wait already as the server takes requests.
        """
        ...

    async def start(self, request: GenerationRequest, scope: Scope | None) -> Generation:
        """Take a place, prepare the prompt and hand it to the engine.

        `scope` is that of the HTTP request which the generation answers: the place counts until the client has
        taken the answer (contract EXEC-4). None where there is no such request.

        Raises a RequestError: ServerOverloaded, InvalidPrompt, ContextLengthExceeded, ServiceUnavailable, ...
        RequestQueueTimeout may also come later, as the first thing the iteration raises.
        """
        ...

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Prompt tokens after rendering; runs no model and takes no place in the engine."""
        ...
