"""Builds the protocols of a plan, tries what they gave, and sees to it that no two of them answer one path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.errors import NinferError, PluginBroken, PluginIncompatible
from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes, WireError
from ninfer_core.plugins.claims import overlapping_paths
from ninfer_core.plugins.loading import LoadedPlugin, describe
from ninfer_core.serving.errors import HTTPProblem, InternalError

_OWN_PATHS = ("/health", "/openapi.json", "/v1/models", "/v1/models/{model_id:path}")
"""The core's own endpoints."""


def build_protocols(plugins: Sequence[LoadedPlugin], context: ProtocolContext) -> list[ProtocolRoutes]:
    """In the plan's order. Raises PluginBroken for routes that are none, and PluginIncompatible naming every path that
    is mounted twice."""
    built: list[ProtocolRoutes] = [plugin.hook.ninfer_protocol_build(context=context) for plugin in plugins]
    paths = {"ninfer itself": list(_OWN_PATHS)}
    for plugin, routes in zip(plugins, built, strict=True):
        label = plugin.offer.label
        try:
            paths[label] = _mounted_paths(routes)
            _try_errors(routes)
        except NinferError:
            raise
        except Exception as error:
            raise PluginBroken(
                f"{label} gave back something wrong from ninfer_protocol_build: {describe(error)}"
            ) from error
    if clashes := overlapping_paths(paths):
        listed = "; ".join(f"{path} by {first} and {second}" for path, first, second in clashes)
        raise PluginIncompatible(f"these paths are answered twice: {listed}; leave one out of --protocols")
    return built


def _mounted_paths(routes: ProtocolRoutes) -> list[str]:
    prefixes = routes.path_prefixes
    if not isinstance(prefixes, tuple) or not all(isinstance(each, str) and each.startswith("/") for each in prefixes):
        raise TypeError(f"path_prefixes is {prefixes!r}, where a tuple of paths such as ('/v1/chat',) belongs")
    handlers = list(routes.handlers())
    if wrong := [handler for handler in handlers if not isinstance(handler, HTTPRouteHandler)]:
        raise TypeError(f"handlers has {type(wrong[0]).__name__}, where a Litestar route handler belongs")
    answered = Counter(
        f"{method} {path}" for handler in handlers for path in handler.paths for method in handler.http_methods
    )
    if twice := [each for each, times in answered.items() if times > 1]:
        raise ValueError(f"handlers answers twice: {', '.join(twice)}")
    return [path for handler in handlers for path in handler.paths]


def _try_errors(routes: ProtocolRoutes) -> None:
    """An answer that has no form would end its request without one."""
    for error in (HTTPProblem(404, "no endpoint at /", code="not_found"), InternalError()):
        wire = routes.wire_error(error)
        if not isinstance(wire, WireError):
            raise TypeError(f"wire_error gives {type(wire).__name__}, where WireError belongs")
        msgspec.convert(msgspec.json.decode(msgspec.json.encode(wire)), WireError)
        for name, value in wire.headers.items():
            if not (name + value).isascii() or not (name + value).isprintable():
                raise ValueError(f"wire_error gives the header {name!r} with {value!r}, which no answer can carry")
