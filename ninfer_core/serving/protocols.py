"""Builds the protocols of a plan, and sees to it that no two of them answer one path."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.api.errors import PluginIncompatible
from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
from ninfer_core.plugins.claims import overlapping_paths
from ninfer_core.plugins.loading import LoadedPlugin

_OWN_PATHS = ("/health", "/openapi.json", "/v1/models", "/v1/models/{model_id:path}")
"""The core's own endpoints."""


def build_protocols(plugins: Sequence[LoadedPlugin], context: ProtocolContext) -> list[ProtocolRoutes]:
    """In the plan's order. Raises PluginIncompatible naming every path that is mounted twice."""
    built: list[ProtocolRoutes] = [plugin.hook.ninfer_protocol_build(context=context) for plugin in plugins]
    paths = {"ninfer itself": list(_OWN_PATHS)}
    for plugin, routes in zip(plugins, built, strict=True):
        paths[plugin.offer.label] = [path for handler in routes.handlers() for path in handler.paths]
    if clashes := overlapping_paths(paths):
        listed = "; ".join(f"{path} by {first} and {second}" for path, first, second in clashes)
        raise PluginIncompatible(f"these paths are answered twice: {listed}; leave one out of --protocols")
    return built
