"""POST /v1/messages and /v1/messages/count_tokens over the generation service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Scope

from ninfer_core.api import Generation, NinferError, ProtocolContext, WireError, whole_answer
from ninfer_protocols.anthropic.answers import MessageIdentity, whole_message
from ninfer_protocols.anthropic.errors import anthropic_wire_error, error_body
from ninfer_protocols.anthropic.events import KEEP_ALIVE_WITH_PING, stream_frames
from ninfer_protocols.anthropic.lowering import lower, lower_prompt
from ninfer_protocols.anthropic.objects import COUNT, CREATE
from ninfer_protocols.anthropic.thinking import EffortRules
from ninfer_protocols.wire.identifiers import anthropic_id
from ninfer_protocols.wire.offload import offloaded
from ninfer_protocols.wire.responses import Headers, JSONAnswer
from ninfer_protocols.wire.sse import KEEP_ALIVE, event_frame, open_event_stream


class MessagesRoutes:
    """The protocol, ready to be mounted."""

    path_prefixes: tuple[str, ...] = ("/v1/messages",)

    def __init__(self, context: ProtocolContext) -> None:
        is_claude_code = "claude-code" in context.compat
        self._service = context.service
        self._keep_alive_seconds = context.keep_alive_seconds
        self._keep_alive = KEEP_ALIVE_WITH_PING if is_claude_code else KEEP_ALIVE
        self._efforts = EffortRules(exposed=self._service.model.capabilities.efforts, map_highest=is_claude_code)

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        # Litestar reads a handler's signature, so they must be functions and not methods.
        @post("/v1/messages", status_code=200, opt=CREATE)
        async def create_message(request: Request[Any, Any, Any]) -> ASGIApp:
            return await self._answer(await request.body(), request.scope)

        @post("/v1/messages/count_tokens", status_code=200, opt=COUNT)
        async def count_message_tokens(request: Request[Any, Any, Any]) -> ASGIApp:
            body = await request.body()
            prompt = await offloaded(self._service, len(body), lambda: lower_prompt(body, self._efforts))
            count = await self._service.count_tokens(prompt)
            return JSONAnswer({"input_tokens": count}, headers=_request_id(anthropic_id("req")))

        return (create_message, count_message_tokens)

    def wire_error(self, error: NinferError) -> WireError:
        return anthropic_wire_error(error)

    async def _answer(self, body: bytes, scope: Scope) -> ASGIApp:
        call = await offloaded(self._service, len(body), lambda: lower(body, self._efforts))
        generation = await self._service.start(call.request, scope)
        identity = MessageIdentity.new(call.model)
        if call.stream:
            return await self._stream(generation, identity)
        answer = await whole_answer(generation)
        return JSONAnswer(whole_message(identity, answer), headers=_request_id(identity.request_id))

    async def _stream(self, generation: Generation, identity: MessageIdentity) -> ASGIApp:
        return await open_event_stream(
            stream_frames(generation, identity),
            release=generation.aclose,
            keep_alive_seconds=self._keep_alive_seconds,
            error_frame=lambda error: event_frame("error", error_body(error, identity.request_id)),
            headers=_request_id(identity.request_id),
            keep_alive=self._keep_alive,
        )


def _request_id(request_id: str) -> Headers:
    """Contract ANTH-40."""
    return ((b"request-id", request_id.encode()),)
