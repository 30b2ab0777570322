"""What a protocol plugin supplies: routes, and its own wire form of every error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ninfer_core.api.errors import NinferError
from ninfer_core.api.service import GenerationService

if TYPE_CHECKING:
    from litestar.handlers import HTTPRouteHandler


Compat = Literal["codex", "claude-code"]
"""A stock client that may get what the contract does not give (decision 14)."""


class WireError(msgspec.Struct, frozen=True, kw_only=True):
    """A typed error in a protocol's own words."""

    status: int
    headers: dict[str, str]
    body: dict[str, object]


class RouteDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What the OpenAPI document of the server says about a handler, which carries it under `ROUTE_DESCRIPTION` in its
    `opt`.

    Bodies are types that msgspec can describe. `request` None takes no body; with `streams` the answer may also be a
    stream of server-sent events. `query` has the type of each query parameter, all of them optional. `error` is the
    body of every answer that is no success; with `refuses` there is no other.
    """

    summary: str
    response: Any
    error: Any
    request: Any = None
    query: Mapping[str, Any] = {}
    streams: bool = False
    refuses: bool = False


ROUTE_DESCRIPTION = "ninfer_route_description"


class ProtocolContext(msgspec.Struct, frozen=True, kw_only=True):
    """All that a protocol may use. `keep_alive_seconds` is the silence after which a stream sends a comment,
    `compat` the deviations for stock clients that the operator asked for (decision 14). `response_store_*` bound
    what a protocol may keep of its answers (contract OPT-20, OPT-21)."""

    service: GenerationService
    keep_alive_seconds: float
    compat: frozenset[Compat] = frozenset()
    response_store_max_records: int = 1024
    response_store_max_bytes: int = 256 * 2**20


class ProtocolRoutes(Protocol):
    """One protocol, ready to be mounted."""

    path_prefixes: tuple[str, ...]
    """Paths whose errors (unknown route, body too large, wrong key) are answered in this protocol's form."""

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        """Litestar handlers. Their paths must not overlap another protocol's."""
        ...

    def wire_error(self, error: NinferError) -> WireError: ...
