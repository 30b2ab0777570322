"""What a chat completion request looks like on the wire. Types only: ranges and meaning are in `lowering`.

Fields that are only accepted at a neutral value are not here but in the table of `unsupported`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class FunctionCall(msgspec.Struct):
    """`arguments` is a JSON object in a string."""

    name: str
    arguments: str


class ToolCallItem(msgspec.Struct):
    id: str | None = None
    type: str = "function"
    function: FunctionCall | None = None


class ChatMessage(msgspec.Struct):
    """One turn of history. Which fields a role may carry is checked while lowering."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallItem] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    audio: Any = None


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(msgspec.Struct):
    """`model` may be anything: only a non-empty string has to match (contract CHAT-2)."""

    messages: list[ChatMessage]
    model: Any = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    preserve_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_progress: bool | None = None
    timings_per_token: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_options: dict[str, Any] | None = None
