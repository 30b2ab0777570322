"""The objects of an answer: the aggregate completion, usage and llama.cpp-compatible timings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ninfer_core.api import Finished, FinishReason, LiveTimings, ToolCallDelta, Usage, WholeAnswer
from ninfer_protocols.wire.identifiers import chat_completion_id, tool_call_id

_FINISH_REASONS: Mapping[FinishReason, Literal["stop", "length"]] = {
    "stop_token": "stop",
    "stop_string": "stop",
    "output_limit": "length",
    "context_capacity": "length",
}


def finish_reason(reason: FinishReason, *, called: bool) -> Literal["stop", "length", "tool_calls"]:
    """Contract CHAT-47; a limit goes before calls (IMPL-5)."""
    ended = _FINISH_REASONS[reason]
    return "tool_calls" if called and ended == "stop" else ended


def tool_call_object(call: ToolCallDelta) -> dict[str, Any]:
    """A call with a fresh id, its arguments in the order they were written in (contract CHAT-41, IMPL-1)."""
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": tool_call_id(), "type": "function", "function": {"name": call.name, "arguments": arguments}}


class AnswerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What all objects of one answer share."""

    id: str
    created_unix_seconds: int
    model: str

    @classmethod
    def new(cls, model: str) -> AnswerIdentity:
        return cls(id=chat_completion_id(), created_unix_seconds=int(time.time()), model=model)

    def envelope(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created_unix_seconds, "model": self.model}


def completion(identity: AnswerIdentity, answer: WholeAnswer) -> dict[str, Any]:
    """The aggregate answer (contract CHAT-42 to 44, OBS-1, IMPL-4)."""
    reasoning, content, calls, finished = answer.reasoning, answer.content, answer.calls, answer.finished
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["content"] = content or None
        message["tool_calls"] = [tool_call_object(call) for call in calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(finished.reason, called=bool(calls)),
    }
    return {
        **identity.envelope("chat.completion"),
        "choices": [choice],
        "usage": usage_object(finished.usage),
        "timings": timings_object(finished),
    }


def usage_object(usage: Usage) -> dict[str, Any]:
    """Contract IMPL-2."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def timings_object(finished: Finished) -> dict[str, Any]:
    """Of a whole answer (contract OBS-1 to 7); drafts are told of where there were any (IMPL-6)."""
    usage, timings, speculation = finished.usage, finished.timings, finished.speculation
    live = LiveTimings(
        output_tokens=usage.output_tokens,
        prompt_seconds=timings.prompt_seconds,
        generation_seconds=timings.generation_seconds,
    )
    told = live_timings_object(live, prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens)
    if speculation is not None and speculation.drafted_tokens:
        told |= {"draft_n": speculation.drafted_tokens, "draft_n_accepted": speculation.accepted_tokens}
    return told


def live_timings_object(live: LiveTimings, *, prompt_tokens: int, cached_tokens: int) -> dict[str, Any]:
    """As far as an answer has come (contract OBS-8). Of n output tokens, n-1 intervals lie on the generation clock."""
    computed_tokens = prompt_tokens - cached_tokens
    intervals = max(live.output_tokens - 1, 0)
    return {
        "cache_n": cached_tokens,
        "prompt_n": computed_tokens,
        "prompt_ms": live.prompt_seconds * 1000,
        "prompt_per_token_ms": _ratio(live.prompt_seconds * 1000, computed_tokens),
        "prompt_per_second": _ratio(computed_tokens, live.prompt_seconds),
        "predicted_n": live.output_tokens,
        "predicted_ms": live.generation_seconds * 1000,
        "predicted_per_token_ms": _ratio(live.generation_seconds * 1000, intervals),
        "predicted_per_second": _ratio(intervals, live.generation_seconds),
    }


def _ratio(amount: float, per: float) -> float:
    """Zero where there is nothing to divide by, so that JSON never needs a NaN or an infinity."""
    return amount / per if per > 0 else 0.0
