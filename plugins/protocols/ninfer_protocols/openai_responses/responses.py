"""The response object at every point of its life (contract RESP-48 to 56)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ninfer_core.api import ErrorCategory, FinishReason, NinferError, TemplateOptions, Usage
from ninfer_protocols.openai_responses.items import OutputItem
from ninfer_protocols.openai_responses.lowering import ResponseCall
from ninfer_protocols.openai_responses.store import StoreCapacityExceeded

TERMINAL_STATUS: Mapping[FinishReason, Literal["completed", "incomplete"]] = {
    "stop_token": "completed",
    "stop_string": "completed",
    "output_limit": "incomplete",
    "context_capacity": "incomplete",
}
"""Contract RESP-50."""


class ResponseObject:
    """Writes the object of one response. What the request said stands in it from the beginning."""

    def __init__(self, call: ResponseCall, model_id: str, resolved: TemplateOptions) -> None:
        self._fixed = {
            "id": call.id,
            "object": "response",
            "created_at": int(time.time()),
            "model": model_id,
            **call.echo,
            "reasoning": {"effort": _effort(resolved), "summary": None},
        }

    def in_progress(self) -> dict[str, Any]:
        return self._object("in_progress", ())

    def finished(self, reason: FinishReason, output: Sequence[OutputItem], usage: Usage) -> dict[str, Any]:
        status = TERMINAL_STATUS[reason]
        return self._object(
            status,
            output,
            usage=usage_object(usage),
            completed_at=max(int(time.time()), self._fixed["created_at"]) if status == "completed" else None,
            incomplete_details={"reason": "max_output_tokens"} if status == "incomplete" else None,
        )

    def failed(self, error: NinferError, output: Sequence[OutputItem]) -> dict[str, Any]:
        return self._object("failed", output, error=error_object(error))

    def _object(self, status: str, output: Sequence[OutputItem], **changed: Any) -> dict[str, Any]:
        outcome = {
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": None,
        }
        return self._fixed | outcome | changed


def usage_object(usage: Usage) -> dict[str, Any]:
    """Contract RESP-55. Nothing is ever billed for writing to a cache, which OpenAI's object also counts."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def error_object(error: NinferError) -> dict[str, str]:
    """Clients know a closed list of codes here: ours goes in front of the message, but for the one that the contract
    names (RESP-71)."""
    if isinstance(error, StoreCapacityExceeded):
        return {"code": error.code, "message": error.message}
    code = "rate_limit_exceeded" if error.category is ErrorCategory.OVERLOADED else "server_error"
    return {"code": code, "message": f"{error.code}: {error.message}"}


def _effort(resolved: TemplateOptions) -> str | None:
    return "none" if resolved.enable_thinking is False else resolved.reasoning_effort
