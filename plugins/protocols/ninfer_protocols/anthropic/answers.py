"""The objects of an answer: the message, its blocks, usage and the reason of its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ninfer_core.api import Admitted, Finished, FinishReason, Usage, WholeAnswer
from ninfer_protocols.wire.identifiers import anthropic_id

_LIMITS: Mapping[FinishReason, str] = {
    "output_limit": "max_tokens",
    "context_capacity": "model_context_window_exceeded",
}


class MessageIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What all objects of one answer share. The id is the signature of its thinking as well (contract ANTH-43)."""

    id: str
    request_id: str
    model: str

    @classmethod
    def new(cls, model: str) -> MessageIdentity:
        return cls(id=anthropic_id("msg"), request_id=anthropic_id("req"), model=model)


def message_object(identity: MessageIdentity, content: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
    """A message that has not ended."""
    return {
        "id": identity.id,
        "type": "message",
        "role": "assistant",
        "model": identity.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_object(usage),
    }


def whole_message(identity: MessageIdentity, answer: WholeAnswer) -> dict[str, Any]:
    """The aggregate answer: thinking, text and calls, each where there is any (contract ANTH-12)."""
    content: list[dict[str, Any]] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": identity.id})
    if answer.content:
        content.append({"type": "text", "text": answer.content})
    content += [tool_use_block(call.name) | {"input": call.arguments} for call in answer.calls]
    finished = answer.finished
    return message_object(identity, content, finished.usage) | ending(finished, called=bool(answer.calls))


def tool_use_block(name: str) -> dict[str, Any]:
    """A call with nothing in it yet."""
    return {"type": "tool_use", "id": anthropic_id("toolu"), "name": name, "input": {}}


def ending(finished: Finished, *, called: bool) -> dict[str, Any]:
    """`stop_reason` and `stop_sequence` (contract ANTH-9, ANTH-10, ANTH-45)."""
    reason, stop = _LIMITS.get(finished.reason), None
    if reason is None and called:
        reason = "tool_use"
    elif reason is None and finished.reason == "stop_string":
        reason, stop = "stop_sequence", finished.stop_string
    return {"stop_reason": reason or "end_turn", "stop_sequence": stop}


def admitted_usage(event: Admitted) -> Usage:
    """Known before the first token: the split of the prompt is exact from admission on (contract ANTH-26)."""
    return Usage(
        prompt_tokens=event.prompt_tokens, cached_tokens=event.cached_tokens, output_tokens=0, reasoning_tokens=0
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    """Contract ANTH-25, ANTH-42. What was newly cached is not known, and said to be unknown."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": None,
        "cache_creation": None,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": None,
        "inference_geo": None,
    }
