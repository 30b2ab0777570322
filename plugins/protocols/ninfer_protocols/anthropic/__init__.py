"""Anthropic Messages as a ninfer protocol plugin."""

from __future__ import annotations

from ninfer_core.api import GenerationRequest, ProtocolContext, ProtocolRoutes, hookimpl


@hookimpl
def ninfer_protocol_build(context: ProtocolContext) -> ProtocolRoutes:
    """Routes are imported here, so that listing and planning load no web framework."""
    from ninfer_protocols.anthropic.routes import MessagesRoutes

    return MessagesRoutes(context)


@hookimpl
def ninfer_protocol_lower(body: bytes) -> GenerationRequest:
    """As the route does it; whether the template has an effort tier is left to the template."""
    from ninfer_protocols.anthropic.lowering import lower
    from ninfer_protocols.anthropic.thinking import KNOWN_EFFORTS, EffortRules

    return lower(body, EffortRules(exposed=KNOWN_EFFORTS, map_highest=False)).request
