"""OpenAI Responses as a ninfer protocol plugin: typed Items, semantic events, local state."""

from __future__ import annotations

from ninfer_core.api import GenerationRequest, ProtocolContext, ProtocolRoutes, hookimpl


@hookimpl
def ninfer_protocol_build(context: ProtocolContext) -> ProtocolRoutes:
    """Routes are imported here, so that listing and planning load no web framework."""
    from ninfer_protocols.openai_responses.routes import ResponsesRoutes

    return ResponsesRoutes(context)


@hookimpl
def ninfer_protocol_lower(body: bytes) -> GenerationRequest:
    """What the routes would start for `body`, whatever model it names; nothing is stored that it could continue."""
    from ninfer_protocols.openai_responses.lowering import Lowering
    from ninfer_protocols.openai_responses.store import ResponseStore

    store = ResponseStore(max_records=1, max_bytes=0)
    return Lowering(store, model_id=None, capabilities=None, codex=False).create(body).request
