"""The answers of the endpoints under /v1/messages as types, for the OpenAPI document. `answers` and `errors` write
them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ninfer_core.api import ROUTE_DESCRIPTION, RouteDescription
from ninfer_protocols.anthropic.requests import MessagesRequest, PromptRequest


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ToolUseBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class MessageUsage(msgspec.Struct, frozen=True):
    """Null is what is not known, or not kept here."""

    input_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: None
    cache_creation: None
    output_tokens: int
    output_tokens_details: dict[str, int]
    server_tool_use: dict[str, int]
    service_tier: None
    inference_geo: None


class MessageObject(msgspec.Struct, frozen=True):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ThinkingBlock | TextBlock | ToolUseBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(msgspec.Struct, frozen=True):
    input_tokens: int


class MessageErrorDetail(msgspec.Struct, frozen=True):
    """`code` is ninfer's own word for what was wrong."""

    type: str
    message: str
    code: str


class MessageError(msgspec.Struct, frozen=True):
    """Anthropic's form of an error (contract ANTH-30)."""

    type: Literal["error"]
    error: MessageErrorDetail
    request_id: str


CREATE = {
    ROUTE_DESCRIPTION: RouteDescription(
        summary="Answer a conversation.",
        request=MessagesRequest,
        response=MessageObject,
        streams=True,
        error=MessageError,
    )
}
COUNT = {
    ROUTE_DESCRIPTION: RouteDescription(
        summary="Count the tokens of a prompt.", request=PromptRequest, response=TokenCount, error=MessageError
    )
}
"""Each goes into its handler's `opt`."""
