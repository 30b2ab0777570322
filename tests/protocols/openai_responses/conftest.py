from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from ninfer_protocols.openai_responses import ninfer_protocol_build

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.testing.event_streams import named_events
from ninfer_core.testing.scripted_application import exchange, scripted_application
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

PATH = "/v1/responses"


class Connection:
    """The protocol's application over one script. `post` fills in what every request needs."""

    def __init__(self, script: EventScript | None, store: dict[str, int], options: dict[str, Any]) -> None:
        def build(context: ProtocolContext) -> ProtocolRoutes:
            bounded = msgspec.structs.replace(
                context, **{f"response_store_max_{bound}": value for bound, value in store.items()}
            )
            return ninfer_protocol_build(context=bounded)

        self.service = ScriptedService(script)
        self.app = scripted_application(self.service, [build], **options)

    def post(self, path: str = PATH, **fields: Any) -> httpx.Response:
        return exchange(self.app, "POST", path, json={"model": "scripted-model", "input": "Say OK."} | fields)

    def create(self, **fields: Any) -> dict[str, Any]:
        """The response object of a request that works."""
        response = self.post(**fields)
        assert response.status_code == 200, response.text
        created: dict[str, Any] = response.json()
        return created

    def stream(self, **fields: Any) -> list[tuple[str, Any]]:
        response = self.post(stream=True, **fields)
        assert response.status_code == 200, response.text
        return named_events(response.text)

    def refusal(self, path: str = PATH, **fields: Any) -> dict[str, Any]:
        """The error object of a 400."""
        response = self.post(path, **fields)
        assert response.status_code == 400, response.text
        error: dict[str, Any] = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    def send(self, method: str, path: str) -> httpx.Response:
        return exchange(self.app, method, PATH + path)


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    """Every answer must have been closed in the end."""
    opened: list[Connection] = []

    def open_connection(
        script: EventScript | None = None, *, store: dict[str, int] | None = None, **options: Any
    ) -> Connection:
        opened.append(Connection(script, store or {}, options))
        return opened[-1]

    yield open_connection
    assert all(connection.service.open_generations == 0 for connection in opened)
