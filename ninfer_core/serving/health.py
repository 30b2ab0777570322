"""GET /health: whether the engine can accept work (contract GEN-3 to GEN-5). A full queue changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from litestar import Response, route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler


def health_handler(is_available: Callable[[], bool]) -> HTTPRouteHandler:
    @route("/health", http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=False, status_code=200)
    def health() -> Response[dict[str, str]]:
        if is_available():
            return Response({"status": "ok"})
        return Response({"status": "unavailable"}, status_code=503)

    return health
