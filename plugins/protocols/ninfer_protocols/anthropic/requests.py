"""What a request looks like on the wire. Types only: ranges and meaning are in the modules that lower them.

Fields that are in no type here are advisory and never read (contract ANTH-28).
"""

from __future__ import annotations

from typing import Any

import msgspec


class TurnMessage(msgspec.Struct):
    """One message as it was sent; consecutive ones of a role make up a turn (contract ANTH-2)."""

    role: str
    content: str | list[dict[str, Any]]


class ThinkingOptions(msgspec.Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class OutputOptions(msgspec.Struct):
    """`format` asks for structured output."""

    effort: str | None = None
    format: Any = None


class ToolChoice(msgspec.Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class PromptRequest(msgspec.Struct):
    """What decides the prompt: all that counting tokens reads (contract ANTH-32)."""

    model: str
    messages: list[TurnMessage]
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingOptions | None = None
    output_config: OutputOptions | None = None
    output_format: Any = None
    preserve_thinking: bool | None = None
    cache_control: dict[str, Any] | None = None
    container: Any = None
    mcp_servers: list[Any] | None = None


class MessagesRequest(PromptRequest):
    """A generation. `max_tokens` may be absent (contract ANTH-7)."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
