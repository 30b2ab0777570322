"""POST /v1/chat/completions over the generation service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Scope

from ninfer_core.api import Generation, NinferError, ProtocolContext, WireError, whole_answer
from ninfer_protocols.openai_chat.chunks import stream_frames
from ninfer_protocols.openai_chat.lowering import ChatCall, lower
from ninfer_protocols.openai_chat.objects import CREATE
from ninfer_protocols.openai_chat.responses import AnswerIdentity, completion
from ninfer_protocols.wire.errors import error_body, openai_wire_error
from ninfer_protocols.wire.offload import offloaded
from ninfer_protocols.wire.responses import JSONAnswer
from ninfer_protocols.wire.sse import data_frame, open_event_stream


class ChatRoutes:
    """The protocol, ready to be mounted. Errors of every path under /v1 that no other protocol claims have its form."""

    path_prefixes: tuple[str, ...] = ("/v1",)

    def __init__(self, context: ProtocolContext) -> None:
        self._service = context.service
        self._keep_alive_seconds = context.keep_alive_seconds

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        # Litestar reads a handler's signature, so it must be a function and not a method.
        @post("/v1/chat/completions", status_code=200, opt=CREATE)
        async def create_chat_completion(request: Request[Any, Any, Any]) -> ASGIApp:
            return await self._answer(await request.body(), request.scope)

        return (create_chat_completion,)

    def wire_error(self, error: NinferError) -> WireError:
        return openai_wire_error(error)

    async def _answer(self, body: bytes, scope: Scope) -> ASGIApp:
        model_id = self._service.model.model_id
        call = await offloaded(self._service, len(body), lambda: lower(body, model_id))
        generation = await self._service.start(call.request, scope)
        identity = AnswerIdentity.new(model_id)
        if call.stream:
            return await self._stream(generation, call, identity)
        return JSONAnswer(completion(identity, await whole_answer(generation)))

    async def _stream(self, generation: Generation, call: ChatCall, identity: AnswerIdentity) -> ASGIApp:
        return await open_event_stream(
            stream_frames(generation, call, identity),
            release=generation.aclose,
            keep_alive_seconds=self._keep_alive_seconds,
            error_frame=lambda error: data_frame(error_body(error)),
        )
