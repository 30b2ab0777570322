"""The answer of a chat completion as types, for the OpenAPI document. `responses` writes it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ninfer_core.api import ROUTE_DESCRIPTION, RouteDescription
from ninfer_protocols.openai_chat.requests import ChatRequest
from ninfer_protocols.wire.errors import ErrorBody


class CalledFunction(msgspec.Struct, frozen=True):
    """`arguments` is a JSON object in a string."""

    name: str
    arguments: str


class MessageToolCall(msgspec.Struct, frozen=True):
    id: str
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`reasoning_content` and `tool_calls` are there when there are any; `content` may be null beside calls."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[MessageToolCall] | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True):
    index: Literal[0]
    message: AssistantMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "tool_calls"]


class CompletionUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


class CompletionTimings(msgspec.Struct, frozen=True):
    """Milliseconds, and tokens per second. The drafts are those that were checked, and those that are in the answer;
    they are there where there were any."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | UnsetType = UNSET
    draft_n_accepted: int | UnsetType = UNSET


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage
    timings: CompletionTimings


CREATE = {
    ROUTE_DESCRIPTION: RouteDescription(
        summary="Answer a conversation.",
        request=ChatRequest,
        response=ChatCompletion,
        streams=True,
        error=ErrorBody,
    )
}
"""Goes into the handler's `opt`."""
