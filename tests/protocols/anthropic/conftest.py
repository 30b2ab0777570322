from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build

from ninfer_core.serving.asgi import Application
from ninfer_core.testing.scripted_application import exchange, scripted_application
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

PATH = "/v1/messages"


class Connection:
    """The protocol's application over one script. `post` fills in what every request needs."""

    def __init__(self, script: EventScript | None, options: dict[str, Any]) -> None:
        self.service = ScriptedService(script)
        self.app: Application = scripted_application(self.service, [ninfer_protocol_build], **options)

    def send(self, method: str, path: str = PATH, **content: Any) -> httpx.Response:
        return exchange(self.app, method, path, **content)

    def post(self, path: str = PATH, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"model": "claude-local", "max_tokens": 64, "messages": [{"role": "user", "content": "Say OK."}]}
        return exchange(self.app, "POST", path, headers=headers, json=body | fields)


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    """Every answer must have been closed in the end."""
    opened: list[Connection] = []

    def open_connection(script: EventScript | None = None, **options: Any) -> Connection:
        opened.append(Connection(script, options))
        return opened[-1]

    yield open_connection
    assert all(connection.service.open_generations == 0 for connection in opened)
