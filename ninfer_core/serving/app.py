"""The ASGI application: Litestar inside our own layers.

From outside in: CORS, request id and errors, key, body limit, disconnect. Litestar's own body limit is off, because
it counts after it has decided to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.errors import NinferError
from ninfer_core.api.protocol import ProtocolRoutes
from ninfer_core.api.service import ServedModel
from ninfer_core.serving.asgi import Application
from ninfer_core.serving.authentication import AuthenticationLayer
from ninfer_core.serving.body import BodyLayer
from ninfer_core.serving.cors import CORSLayer
from ninfer_core.serving.disconnect import STALL_SECONDS, DisconnectLayer
from ninfer_core.serving.envelope import EnvelopeLayer
from ninfer_core.serving.errors import ErrorForms, framework_problem
from ninfer_core.serving.health import health_handler
from ninfer_core.serving.models import model_handlers
from ninfer_core.serving.openapi import openapi_handler
from ninfer_core.telemetry import Log


def create_app(
    model: ServedModel,
    protocols: Sequence[ProtocolRoutes],
    *,
    is_available: Callable[[], bool],
    api_key: str | None,
    cors: bool,
    max_request_bytes: int,
    log: Log,
    stall_seconds: float = STALL_SECONDS,
) -> Application:
    """The application of one server. Clients that take nothing for `stall_seconds` are given up."""
    forms = ErrorForms(protocols)
    litestar = cast("Application", _litestar(model, protocols, is_available, forms))
    app: Application = DisconnectLayer(litestar, stall_seconds=stall_seconds)
    app = BodyLayer(app, max_bytes=max_request_bytes)
    if api_key is not None:
        app = AuthenticationLayer(app, api_key)
    app = EnvelopeLayer(app, forms, log)
    # Outside of the errors: a browser may only read those that carry the CORS headers too.
    return CORSLayer(app) if cors else app


def _litestar(
    model: ServedModel, protocols: Sequence[ProtocolRoutes], is_available: Callable[[], bool], forms: ErrorForms
) -> Litestar:
    def typed_error(request: Request[Any, Any, Any], error: NinferError) -> Response[dict[str, object]]:
        wire = forms.wire_error(request.scope["path"], error)
        return Response(wire.body, status_code=wire.status, headers=wire.headers)

    def framework_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, object]]:
        return typed_error(request, framework_problem(error, request.method, request.scope["path"]))

    def unexpected_error(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, object]]:
        raise error

    handlers = [
        health_handler(is_available),
        *model_handlers(model),
        *(handler for protocol in protocols for handler in protocol.handlers()),
    ]
    handlers.append(openapi_handler(handlers))
    _answer_head(handlers)
    return Litestar(
        route_handlers=handlers,
        exception_handlers={
            NinferError: typed_error,
            HTTPException: framework_error,
            Exception: unexpected_error,
        },
        # Ours describes bodies that the handlers read as bytes.
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )


def _answer_head(handlers: Sequence[HTTPRouteHandler]) -> None:
    """HEAD belongs to every GET (RFC 9110, section 9.3.2), and the server leaves the body out. A path whose HEAD has a
    handler of its own keeps it."""
    own = {path for handler in handlers if "HEAD" in handler.http_methods for path in handler.paths}
    for handler in handlers:
        if "GET" in handler.http_methods and own.isdisjoint(handler.paths):
            handler.http_methods.add("HEAD")
