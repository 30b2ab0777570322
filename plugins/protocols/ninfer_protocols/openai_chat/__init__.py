"""OpenAI Chat Completions as a ninfer protocol plugin."""

from __future__ import annotations

from ninfer_core.api import GenerationRequest, ProtocolContext, ProtocolRoutes, hookimpl


@hookimpl
def ninfer_protocol_build(context: ProtocolContext) -> ProtocolRoutes:
    """Routes are imported here, so that listing and planning load no web framework."""
    from ninfer_protocols.openai_chat.routes import ChatRoutes

    return ChatRoutes(context)


@hookimpl
def ninfer_protocol_lower(body: bytes) -> GenerationRequest:
    """As the route does it."""
    from ninfer_protocols.openai_chat.lowering import lower

    return lower(body, None).request
