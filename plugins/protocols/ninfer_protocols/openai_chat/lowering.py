"""A request body -> the neutral request and what the answer has to look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ninfer_core.api import (
    TOP_K_CAP,
    GenerationRequest,
    ModelNotFound,
    RequestError,
    SamplingOptions,
    TemplateOptions,
)
from ninfer_protocols.openai_chat import unsupported
from ninfer_protocols.openai_chat.messages import cache_breakpoints, lower_messages
from ninfer_protocols.openai_chat.requests import ChatRequest
from ninfer_protocols.openai_chat.tools import effective_tools
from ninfer_protocols.wire.cache_hints import openai_cache_marks
from ninfer_protocols.wire.efforts import OPENAI_EFFORTS
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.json import convert, decode_object
from ninfer_protocols.wire.tools import check_tool_count

RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (0, TOP_K_CAP),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "seed": (-(2**63), 2**63 - 1),
}
"""Inclusive (contract CHAT-9, CHAT-10). `top_k` 0 stands for the cap."""

MAX_STOPS = 4


class ChatCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request, understood."""

    request: GenerationRequest
    stream: bool
    include_usage: bool
    return_progress: bool
    timings_per_token: bool


def lower(body: bytes, model_id: str | None) -> ChatCall:
    """`model_id` is the one model there is; None takes any name.

    Raises a RequestError with `param` and `code` for whatever cannot be honoured exactly."""
    decoded = decode_object(body)
    check_tool_count(decoded)
    chat = convert(decoded, ChatRequest)
    if model_id is not None:
        _check_model(chat.model, model_id)
    unsupported.check(decoded)
    return ChatCall(
        request=_request(chat),
        stream=bool(chat.stream),
        include_usage=bool(chat.stream_options and chat.stream_options.include_usage),
        return_progress=bool(chat.return_progress),
        timings_per_token=bool(chat.timings_per_token),
    )


def _check_model(asked: Any, served: str) -> None:
    """Missing, empty or not a string takes the loaded model; any other name must be its own (contract CHAT-2)."""
    if isinstance(asked, str) and asked and asked != served:
        raise ModelNotFound(asked=asked, served=served)


def _request(chat: ChatRequest) -> GenerationRequest:
    for field, (low, high) in RANGES.items():
        value = getattr(chat, field)
        if value is not None and not low <= value <= high:
            raise invalid_value(field, f"is {value}; it must be between {low} and {high}")
    messages, tools = lower_messages(chat.messages), effective_tools(chat)
    return GenerationRequest(
        messages=messages,
        tools=tools,
        cache_marks=openai_cache_marks(
            messages, cache_breakpoints(chat.messages), len(tools), chat.prompt_cache_options
        ),
        structural_marks=False,
        template=_template_options(chat),
        sampling=SamplingOptions(**{field: getattr(chat, field) for field in RANGES}),
        max_output_tokens=_max_output_tokens(chat),
        stop=_stop(chat.stop),
    )


def _max_output_tokens(chat: ChatRequest) -> int | None:
    """`max_completion_tokens` wins over the legacy name (contract CHAT-8, IMPL-7)."""
    for field in ("max_completion_tokens", "max_tokens"):
        value: int | None = getattr(chat, field)
        if value is not None and value < 0:
            raise invalid_value(field, f"is {value}; it must be 0 or more")
    return chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    strings = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(strings) > MAX_STOPS:
        raise invalid_value("stop", f"has {len(strings)} strings; at most {MAX_STOPS} are accepted")
    if not all(strings):
        raise invalid_value("stop", "has an empty string, which would match everywhere; leave it out")
    return strings


def _template_options(chat: ChatRequest) -> TemplateOptions:
    arguments = {name: value for name, value in (chat.chat_template_kwargs or {}).items() if value is not None}
    for name in arguments:
        if name not in ("enable_thinking", "preserve_thinking"):
            raise invalid_value(
                f"chat_template_kwargs.{name}",
                "is not an option of this template; known are enable_thinking and preserve_thinking",
            )
    effort = chat.reasoning_effort
    if effort is not None and effort not in OPENAI_EFFORTS:
        raise invalid_value("reasoning_effort", f"is '{effort}'; known words are {', '.join(OPENAI_EFFORTS)}")
    enable_thinking = _switch("enable_thinking", chat.enable_thinking, arguments)
    if effort == "none" and enable_thinking:
        raise RequestError(
            "reasoning_effort: 'none' contradicts enable_thinking true; send one of the two",
            code="conflicting_template_option",
            param="reasoning_effort",
        )
    return TemplateOptions(
        enable_thinking=False if effort == "none" else enable_thinking,
        reasoning_effort=None if effort == "none" else effort,
        preserve_thinking=_switch("preserve_thinking", chat.preserve_thinking, arguments),
    )


def _switch(name: str, top_level: bool | None, arguments: dict[str, Any]) -> bool | None:
    """Either spelling, or both when they are the same boolean (contract TMPL-7)."""
    nested = arguments.get(name)
    if nested is not None and not isinstance(nested, bool):
        raise invalid_value(f"chat_template_kwargs.{name}", "must be true or false")
    if None not in (top_level, nested) and top_level is not nested:
        raise RequestError(
            f"{name}: is {top_level} at top level and {nested} in chat_template_kwargs; send one of the two",
            code="conflicting_template_option",
            param=name,
        )
    return nested if top_level is None else top_level
