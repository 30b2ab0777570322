"""The endpoints under /v1/responses (contract GEN-9 to 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Scope

from ninfer_core.api import NinferError, ProtocolContext, RequestError, WireError
from ninfer_protocols.openai_responses import objects
from ninfer_protocols.openai_responses.answers import Answer
from ninfer_protocols.openai_responses.listing import check_retrieval, list_input_items
from ninfer_protocols.openai_responses.lowering import Lowering, ResponseCall
from ninfer_protocols.openai_responses.store import ResponseStore
from ninfer_protocols.wire.errors import openai_wire_error
from ninfer_protocols.wire.offload import offloaded
from ninfer_protocols.wire.responses import Headers, JSONAnswer
from ninfer_protocols.wire.sse import open_event_stream

DROPPED_TOOLS_HEADER = b"x-ninfer-dropped-tools"
"""Names the hosted tools that `--compat codex` left out (decision 14)."""

AnyRequest = Request[Any, Any, Any]


class ResponsesRoutes:
    """The protocol, ready to be mounted. Its store lives and dies with it."""

    path_prefixes: tuple[str, ...] = ("/v1/responses",)

    def __init__(self, context: ProtocolContext) -> None:
        self._service = context.service
        self._keep_alive_seconds = context.keep_alive_seconds
        self._store = ResponseStore(
            max_records=context.response_store_max_records, max_bytes=context.response_store_max_bytes
        )
        model = context.service.model
        self._lowering = Lowering(
            self._store,
            model_id=model.model_id,
            capabilities=model.capabilities,
            codex="codex" in context.compat,
        )

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        # Litestar reads a handler's signature, so it must be a function and not a method.
        @post("/v1/responses", status_code=200, opt=objects.CREATE)
        async def create_response(request: AnyRequest) -> ASGIApp:
            return await self._create(await request.body(), request.scope)

        @post("/v1/responses/input_tokens", status_code=200, opt=objects.COUNT)
        async def count_input_tokens(request: AnyRequest) -> ASGIApp:
            call = await self._understood(await request.body(), only_count=True)
            count = await self._service.count_tokens(call.request)
            return JSONAnswer({"object": "response.input_tokens", "input_tokens": count})

        @get("/v1/responses/{response_id:str}", opt=objects.RETRIEVE)
        async def retrieve_response(request: AnyRequest) -> ASGIApp:
            check_retrieval(request.query_params)
            return JSONAnswer(self._store.get(_response_id(request)).response_json)

        @delete("/v1/responses/{response_id:str}", status_code=200, opt=objects.DELETE)
        async def delete_response(request: AnyRequest) -> ASGIApp:
            response_id = _response_id(request)
            self._store.delete(response_id)
            return JSONAnswer({"id": response_id, "object": "response.deleted", "deleted": True})

        @get("/v1/responses/{response_id:str}/input_items", opt=objects.LIST_INPUT)
        async def list_response_input(request: AnyRequest) -> ASGIApp:
            return JSONAnswer(list_input_items(self._store.get(_response_id(request)), request.query_params))

        @post("/v1/responses/{response_id:str}/cancel", status_code=200, opt=objects.CANCEL)
        async def cancel_response(request: AnyRequest) -> ASGIApp:
            raise RequestError(
                f"'{_response_id(request)[:80]}' cannot be cancelled: nothing runs in the background "
                "here; close the connection of a response to end it",
                code="background_not_supported",
            )

        @post("/v1/responses/compact", status_code=200, opt=objects.COMPACT)
        async def compact_response() -> ASGIApp:
            raise RequestError(
                "conversations are not compacted here; shorten the input instead", code="compaction_not_supported"
            )

        return (
            create_response,
            count_input_tokens,
            retrieve_response,
            delete_response,
            list_response_input,
            cancel_response,
            compact_response,
        )

    def wire_error(self, error: NinferError) -> WireError:
        return openai_wire_error(error)

    async def _understood(self, body: bytes, *, only_count: bool) -> ResponseCall:
        """In steps: the store belongs to the event loop, and a small body may continue a large conversation."""
        size = len(body)
        read = await offloaded(self._service, size, lambda: self._lowering.read(body, only_count=only_count))
        parent = self._lowering.parent(read)
        size += 0 if parent is None else parent.context_bytes
        return await offloaded(self._service, size, lambda: self._lowering.lower(read, parent))

    async def _create(self, body: bytes, scope: Scope) -> ASGIApp:
        call = await self._understood(body, only_count=False)
        if call.store:
            self._store.check_room(call.parent, call.input_json)
        generation = await self._service.start(call.request, scope)
        answer = Answer(call, generation, self._service.model.model_id, self._store)
        headers = _dropped(call.tools.dropped)
        if call.stream:
            return await open_event_stream(
                answer.frames(),
                release=generation.aclose,
                keep_alive_seconds=self._keep_alive_seconds,
                error_frame=answer.failure,
                headers=headers,
            )
        try:
            return JSONAnswer(await answer.whole(), headers=headers)
        finally:
            await generation.aclose()


def _response_id(request: AnyRequest) -> str:
    return str(request.path_params["response_id"])


def _dropped(tools: Sequence[str]) -> Headers:
    return ((DROPPED_TOOLS_HEADER, ", ".join(tools).encode("ascii", "replace")),) if tools else ()
