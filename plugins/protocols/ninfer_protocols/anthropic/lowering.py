"""A request body -> the neutral request and what the answer has to look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ninfer_core.api import TOP_K_CAP, GenerationRequest, SamplingOptions
from ninfer_protocols.anthropic.cache import CacheMarks, read_ttl
from ninfer_protocols.anthropic.history import lower_history
from ninfer_protocols.anthropic.requests import MessagesRequest, PromptRequest
from ninfer_protocols.anthropic.thinking import EffortRules, template_options, thinking_budget
from ninfer_protocols.anthropic.tools import lower_tools
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.json import convert, decode_object
from ninfer_protocols.wire.tools import check_tool_count

RANGES: Mapping[str, tuple[float, float]] = {"temperature": (0, 1), "top_p": (0, 1), "top_k": (0, TOP_K_CAP)}
"""Inclusive (contract IMPL-11). `top_k` 0 stands for the cap."""

MAX_STOP_SEQUENCES = 64
"""Every one of them is looked for at every character of an answer."""


class MessagesCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request, understood. `model` is the client's own label (contract ANTH-29)."""

    request: GenerationRequest
    model: str
    stream: bool


def lower(body: bytes, efforts: EffortRules) -> MessagesCall:
    """Raises a RequestError with `param` and `code` for whatever cannot be honoured exactly."""
    decoded = decode_object(body)
    check_tool_count(decoded)
    asked = convert(decoded, MessagesRequest)
    prompt = _prompt(asked, decoded, efforts)
    request = msgspec.structs.replace(
        prompt,
        sampling=_sampling(asked),
        max_output_tokens=_max_tokens(asked.max_tokens),
        stop=_stop_sequences(asked.stop_sequences),
        # Thinking is not searched for them (contract IMPL-11).
        stop_channels=("content",),
        thinking_budget=thinking_budget(asked.thinking, asked.max_tokens),
    )
    return MessagesCall(request=request, model=asked.model, stream=bool(asked.stream))


def lower_prompt(body: bytes, efforts: EffortRules) -> GenerationRequest:
    """What decides the prompt and nothing else, under the same rules (contract ANTH-32)."""
    decoded = decode_object(body)
    check_tool_count(decoded)
    return _prompt(convert(decoded, PromptRequest), decoded, efforts)


def _prompt(asked: PromptRequest, decoded: dict[str, Any], efforts: EffortRules) -> GenerationRequest:
    if not asked.model:
        raise invalid_value("model", "is empty; any other label will do")
    _check_capabilities(asked)
    marks = CacheMarks()
    tools = lower_tools(asked.tools, asked.tool_choice, marks)
    history = lower_history(asked.system, asked.messages, marks)
    ttl = read_ttl(decoded, "")
    if ttl is not None:
        marks.last_block(ttl)
    return GenerationRequest(
        messages=history.messages,
        tools=tools,
        template=template_options(asked, efforts, prefill=history.prefill),
        continue_final=history.prefill,
        cache_marks=marks.marks(),
        structural_marks=ttl is None,
    )


def _check_capabilities(asked: PromptRequest) -> None:
    if asked.container is not None:
        raise invalid_value("container", "this server has no containers", code="container_not_supported")
    if asked.mcp_servers:
        raise invalid_value(
            "mcp_servers", "this server connects to no MCP server; only [] is accepted", code="mcp_not_supported"
        )
    formats = (
        ("output_config.format", asked.output_config and asked.output_config.format),
        ("output_format", asked.output_format),
    )
    for field, value in formats:
        if value is not None:
            raise invalid_value(
                field,
                "output is never constrained to a schema here; describe the form in the prompt",
                code="structured_outputs_not_supported",
            )


def _max_tokens(asked: int | None) -> int | None:
    if asked == 0:
        raise invalid_value(
            "max_tokens",
            "is 0, and a prompt is not cached without an answer here; it must be 1 or more",
            code="cache_prewarm_not_supported",
        )
    if asked is not None and asked < 0:
        raise invalid_value("max_tokens", f"is {asked}; it must be 1 or more")
    return asked


def _sampling(asked: MessagesRequest) -> SamplingOptions:
    for field, (low, high) in RANGES.items():
        value = getattr(asked, field)
        if value is not None and not low <= value <= high:
            raise invalid_value(field, f"is {value}; it must be between {low} and {high}")
    return SamplingOptions(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k)


def _stop_sequences(asked: list[str] | None) -> tuple[str, ...]:
    sequences = tuple(asked or ())
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise invalid_value("stop_sequences", f"has {len(sequences)}; at most {MAX_STOP_SEQUENCES} are accepted")
    if not all(sequences):
        raise invalid_value("stop_sequences", "has an empty string, which would match everywhere; leave it out")
    return sequences
