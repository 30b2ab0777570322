"""Anthropic's form of errors (contract ANTH-30, ANTH-40, ANTH-41): one place from category to status and type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninfer_core.api import ContextLengthExceeded, ErrorCategory, NinferError, RequestError, WireError
from ninfer_protocols.wire.identifiers import anthropic_id

_BY_CATEGORY: Mapping[ErrorCategory, tuple[int, str]] = {
    ErrorCategory.INVALID_REQUEST: (400, "invalid_request_error"),
    ErrorCategory.AUTHENTICATION: (401, "authentication_error"),
    ErrorCategory.NOT_FOUND: (404, "not_found_error"),
    ErrorCategory.TOO_LARGE: (413, "request_too_large"),
    ErrorCategory.OVERLOADED: (529, "overloaded_error"),
    ErrorCategory.TIMEOUT: (504, "timeout_error"),
    ErrorCategory.UNAVAILABLE: (503, "api_error"),
    ErrorCategory.CANCELLED: (499, "api_error"),
    ErrorCategory.INTERNAL: (500, "api_error"),
    ErrorCategory.STARTUP: (500, "api_error"),
}


def anthropic_wire_error(error: NinferError) -> WireError:
    """Status, headers and body of `error`, under a request id of its own."""
    request_id = anthropic_id("req")
    return WireError(
        status=_BY_CATEGORY[error.category][0],
        headers={"request-id": request_id},
        body=error_body(error, request_id),
    )


def error_body(error: NinferError, request_id: str) -> dict[str, object]:
    """`code` and `param` are beside what Anthropic's own errors have; `param` is there where a field is at fault."""
    described: dict[str, Any] = {
        "type": _BY_CATEGORY[error.category][1],
        "message": _message(error),
        "code": error.code,
    }
    if isinstance(error, RequestError) and error.param:
        described["param"] = error.param
    return {"type": "error", "error": described, "request_id": request_id}


def _message(error: NinferError) -> str:
    if isinstance(error, ContextLengthExceeded):
        # Agents know by these words that they have to compact the conversation.
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.max_context} maximum"
    return error.message
