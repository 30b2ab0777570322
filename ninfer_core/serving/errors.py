"""Errors on their way out: whose form an answer takes, and what the web framework's own errors become."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from litestar.exceptions import HTTPException

from ninfer_core.api.errors import ErrorCategory, NinferError, RequestError, StartupError
from ninfer_core.api.protocol import ProtocolRoutes, WireError
from ninfer_core.serving.asgi import Send, send_answer


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str


class AnyErrorBody(msgspec.Struct, frozen=True):
    """What the bodies of errors have in common, whichever protocol's form they take."""

    error: ErrorDetail


class HTTPProblem(RequestError):
    """Wrong on the level of HTTP: `status` stands, whatever the protocol would make of the category."""

    def __init__(self, status: int, message: str, *, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.headers = headers or {}
        if status == HTTPStatus.NOT_FOUND:
            self.category = ErrorCategory.NOT_FOUND


class InternalError(NinferError):
    """A bug. Its details are in the log, under the request's id."""

    def __init__(self) -> None:
        super().__init__("the server failed on this request; its log says more")


class ErrorForms:
    """Chooses the protocol that owns a path: the longest prefix that fits, else the protocol of the shortest, which
    claims most."""

    def __init__(self, protocols: Sequence[ProtocolRoutes]) -> None:
        if not protocols:
            raise StartupError("a server needs at least one protocol (--protocols)")
        owned = [(prefix, protocol) for protocol in protocols for prefix in protocol.path_prefixes]
        # Sorting is stable: of two protocols with one prefix, the one named first owns it.
        self._owned = sorted(owned, key=lambda pair: -len(pair[0]))
        self._default = min(protocols, key=_shortest_prefix)

    def wire_error(self, path: str, error: NinferError) -> WireError:
        wire = self._owner(path).wire_error(error)
        if isinstance(error, HTTPProblem):
            return msgspec.structs.replace(wire, status=error.status, headers=wire.headers | error.headers)
        return wire

    def _owner(self, path: str) -> ProtocolRoutes:
        for prefix, protocol in self._owned:
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return protocol
        return self._default


def _shortest_prefix(protocol: ProtocolRoutes) -> int:
    return min(map(len, protocol.path_prefixes), default=sys.maxsize)


def framework_problem(error: HTTPException, method: str, path: str) -> HTTPProblem:
    """Litestar's own errors (no route, wrong method, ...) as ours."""
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == HTTPStatus.NOT_FOUND:
        return HTTPProblem(404, f"no endpoint at {path}", code="not_found")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("allow", "another method")
        return HTTPProblem(
            405, f"{method} is not possible at {path}; use {allowed}", code="method_not_allowed", headers=headers
        )
    return HTTPProblem(error.status_code, error.detail, code="http_error", headers=headers)


async def send_wire_error(send: Send, wire: WireError) -> None:
    """The whole answer, as JSON."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in wire.headers.items()]
    await send_answer(
        send, wire.status, [*headers, (b"content-type", b"application/json")], msgspec.json.encode(wire.body)
    )
