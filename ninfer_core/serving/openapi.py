"""GET /openapi.json: every route of the server with the types of its bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, Literal

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.protocol import ROUTE_DESCRIPTION, RouteDescription
from ninfer_core.serving.errors import AnyErrorBody

PATH = "/openapi.json"
_PARAMETER = re.compile(r"\{(\w+):\w+\}")
_EVENT = {
    "type": "object",
    "description": "One of the events of a stream.",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
_REFERENCE = "#/components/schemas/{name}"


class OpenAPIDocument(msgspec.Struct, frozen=True):
    """This document."""

    openapi: Literal["3.1.0"]
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


_DESCRIPTION = RouteDescription(summary="This document.", response=OpenAPIDocument, error=AnyErrorBody)


def openapi_handler(handlers: Sequence[HTTPRouteHandler]) -> HTTPRouteHandler:
    """Of all `handlers` and of itself."""

    @get(PATH, sync_to_thread=False, opt={ROUTE_DESCRIPTION: _DESCRIPTION})
    def get_openapi_document() -> dict[str, Any]:
        return document

    document = openapi_document([*handlers, get_openapi_document])
    return get_openapi_document


def openapi_document(handlers: Sequence[HTTPRouteHandler]) -> dict[str, Any]:
    """In the order of `handlers`. Those without a description are left out: nothing is known of their bodies."""
    routes = list(_routes(handlers))
    types = [
        kind
        for _, _, _, route in routes
        for kind in (route.request, route.response, route.error, *route.query.values())
        if kind is not None
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, method, name, route in routes:
        operation = _operation(name, route, by_type) | {"parameters": [*_in_path(path), *_in_query(route, by_type)]}
        paths.setdefault(_PARAMETER.sub(r"{\1}", path), {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "ninfer", "version": version("ninfer")},
        "paths": paths,
        "components": {"schemas": components},
    }


def _routes(handlers: Sequence[HTTPRouteHandler]) -> Iterator[tuple[str, str, str, RouteDescription]]:
    for handler in handlers:
        route = handler.opt.get(ROUTE_DESCRIPTION)
        if isinstance(route, RouteDescription):
            for path in sorted(handler.paths):
                for method in sorted(handler.http_methods - {"HEAD"}):
                    yield path, method, handler.handler_name, route


def _operation(name: str, route: RouteDescription, by_type: dict[int, Any]) -> dict[str, Any]:
    error = {"description": "What was wrong.", "content": {"application/json": {"schema": by_type[id(route.error)]}}}
    content: dict[str, Any] = {"application/json": {"schema": by_type[id(route.response)]}}
    if route.streams:
        content["text/event-stream"] = {"schema": _EVENT}
    responses: dict[str, Any] = {"4XX": error, "5XX": error}
    if not route.refuses:
        responses = {"200": {"description": "The answer.", "content": content}} | responses
    operation: dict[str, Any] = {"operationId": name, "summary": route.summary, "responses": responses}
    if route.request is not None:
        body = {"application/json": {"schema": by_type[id(route.request)]}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]


def _in_query(route: RouteDescription, by_type: dict[int, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "schema": by_type[id(kind)]}
        for name, kind in route.query.items()
    ]
