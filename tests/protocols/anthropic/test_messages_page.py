"""docs/api.md names the protocol's endpoints and every field that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build
from ninfer_protocols.anthropic.requests import MessagesRequest

from ninfer_core.api import ProtocolContext
from ninfer_core.testing.scripted_service import ScriptedService

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()


def test_endpoints() -> None:
    routes = ninfer_protocol_build(context=ProtocolContext(service=ScriptedService(), keep_alive_seconds=5))
    assert all(f"POST {path}`" in PAGE for handler in routes.handlers() for path in handler.paths)


@pytest.mark.parametrize("field", MessagesRequest.__struct_fields__)
def test_fields(field: str) -> None:
    assert f"`{field}`" in PAGE
