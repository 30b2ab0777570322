"""GET /health: whether the engine can accept work (contract GEN-3 to GEN-5). A full queue changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.protocol import ROUTE_DESCRIPTION, RouteDescription


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok", "unavailable"]


_DESCRIPTION = RouteDescription(
    summary="Whether work is accepted; 503 with `unavailable` where not.", response=Health, error=dict[str, Any]
)


def health_handler(is_available: Callable[[], bool]) -> HTTPRouteHandler:
    @get("/health", sync_to_thread=False, opt={ROUTE_DESCRIPTION: _DESCRIPTION})
    def health() -> Response[dict[str, str]]:
        if is_available():
            return Response({"status": "ok"})
        return Response({"status": "unavailable"}, status_code=503)

    return health
