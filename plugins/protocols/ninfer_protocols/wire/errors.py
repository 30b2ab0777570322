"""The OpenAI form of errors (contract ERR-1 to ERR-6): one place from code and category to status and type."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ninfer_core.api import ErrorCategory, NinferError, RequestError, WireError

_BY_CATEGORY: Mapping[ErrorCategory, tuple[int, str]] = {
    ErrorCategory.INVALID_REQUEST: (400, "invalid_request_error"),
    ErrorCategory.AUTHENTICATION: (401, "authentication_error"),
    ErrorCategory.NOT_FOUND: (404, "invalid_request_error"),
    ErrorCategory.TOO_LARGE: (413, "invalid_request_error"),
    ErrorCategory.OVERLOADED: (429, "rate_limit_error"),
    # The pending deadline is the server's doing, so 503 and not 408 (contract ERR-3).
    ErrorCategory.TIMEOUT: (503, "server_error"),
    ErrorCategory.UNAVAILABLE: (503, "server_error"),
    ErrorCategory.CANCELLED: (499, "request_cancelled"),
    ErrorCategory.INTERNAL: (500, "server_error"),
    ErrorCategory.STARTUP: (500, "server_error"),
}


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """OpenAI's form of an error (contract ERR-1)."""

    error: ErrorDetail


def openai_wire_error(error: NinferError) -> WireError:
    """Status, headers and body of `error` as OpenAI's endpoints give it."""
    status, kind = _BY_CATEGORY[error.category]
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return WireError(status=status, headers=headers, body=error_body(error, kind))


def error_body(error: NinferError, kind: str | None = None) -> dict[str, object]:
    """The ERR-1 object. An empty `param` is null."""
    param = error.param if isinstance(error, RequestError) else None
    kind = kind or _BY_CATEGORY[error.category][1]
    return {"error": {"message": error.message, "type": kind, "param": param, "code": error.code}}


def invalid_value(param: str, message: str, *, code: str = "invalid_value") -> RequestError:
    """A 400 about one field. `message` says what was wrong and what would work, without the field's name."""
    return RequestError(f"{param}: {message}", code=code, param=param)
