from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from litestar import Litestar, Request, Response
from litestar.testing import TestClient
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.api import NinferError, ProtocolContext
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

Client = TestClient[Litestar]
Connect = Callable[..., tuple[Client, ScriptedService]]


def chat_app(service: ScriptedService, keep_alive_seconds: float) -> Litestar:
    """The protocol alone, as any host of it would mount it."""
    routes = ninfer_protocol_build(context=ProtocolContext(service=service, keep_alive_seconds=keep_alive_seconds))

    def typed_error(request: Request[Any, Any, Any], error: NinferError) -> Response[dict[str, object]]:
        wire = routes.wire_error(error)
        return Response(wire.body, status_code=wire.status, headers=wire.headers)

    return Litestar(list(routes.handlers()), exception_handlers={NinferError: typed_error}, openapi_config=None)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Gives a client of the protocol over a scripted service; every answer must have been closed in the end."""
    opened: list[tuple[Client, ScriptedService]] = []

    def open_client(
        script: EventScript | None = None, keep_alive_seconds: float = 5.0
    ) -> tuple[Client, ScriptedService]:
        service = ScriptedService(script)
        client: Client = TestClient(chat_app(service, keep_alive_seconds))
        opened.append((client, service))
        return client, service

    yield open_client
    for _, service in opened:
        assert service.open_generations == 0
