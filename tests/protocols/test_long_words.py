"""An error about a field that is a megabyte long is not a megabyte long, on every protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from ninfer_protocols import anthropic, openai_chat, openai_responses

from ninfer_core.api import ProtocolContext, RequestError
from ninfer_core.testing.scripted_service import ScriptedService

LONG = "word " * 40_000
LARGEST_ANSWER_BYTES = 4096

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "user", "name": None, "content": [{"type": "text", "text": "x"}]},
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": True},
    "response_format": {"type": "text"},
    "verbosity": "medium",
    "stop": ["x"],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ],
    "tools": [{"type": "function", "name": "f", "parameters": {}}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "reasoning": {"effort": "low"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"key": "value"},
    "truncation": "disabled",
    "chat_template_kwargs": {"preserve_thinking": True},
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 8,
    "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low"},
}
FORMS = [(openai_chat, CHAT), (openai_responses, RESPONSES), (anthropic, MESSAGES)]


def lengthened(value: Any) -> Iterator[Any]:
    """`value` with one string of it, or one name of a member, replaced by a long one; each in turn."""
    if isinstance(value, str):
        yield LONG
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from ({**value, name: longer} for longer in lengthened(member))
            yield {(LONG if other == name else other): kept for other, kept in value.items()}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], longer, *value[index + 1 :]] for longer in lengthened(item))


@pytest.mark.contract("ERR-1", "ANTH-41")
@pytest.mark.parametrize(("protocol", "body"), FORMS, ids=["chat", "responses", "messages"])
def test_what_is_quoted_is_quoted_in_part(protocol: Any, body: dict[str, Any]) -> None:
    routes = protocol.ninfer_protocol_build(context=ProtocolContext(service=ScriptedService(), keep_alive_seconds=5))
    protocol.ninfer_protocol_lower(body=json.dumps(body).encode())
    refused = 0
    for changed in lengthened(body):
        try:
            protocol.ninfer_protocol_lower(body=json.dumps(changed).encode())
        except RequestError as error:
            refused += 1
            assert len(msgspec.json.encode(routes.wire_error(error).body)) < LARGEST_ANSWER_BYTES, error.param
    assert refused > 15


def test_the_place_and_the_way_out_stay() -> None:
    error = RequestError(f"tools[0]: is '{LONG}'; send a shorter one", param=f"metadata.{LONG}")
    assert error.message.startswith("tools[0]: is 'word") and error.message.endswith("; send a shorter one")
    assert f"({len(LONG) + len('tools[0]: is ; send a shorter one') + 2 - 2000} characters)" in error.message
    assert error.param is not None and error.param.startswith("metadata.word") and len(error.param) < 300
