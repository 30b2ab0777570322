"""docs/api.md names the protocol's endpoints, every field that it reads and every code of its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from ninfer_protocols.openai_responses import ninfer_protocol_build
from ninfer_protocols.openai_responses.requests import KNOWN_FIELDS, RULES

from ninfer_core.api import ProtocolContext
from ninfer_core.testing.scripted_service import ScriptedService

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
SECTION = PAGE.partition("\n## Responses\n")[2].partition("\n## ")[0]


def test_endpoints() -> None:
    routes = ninfer_protocol_build(context=ProtocolContext(service=ScriptedService(), keep_alive_seconds=5))
    for handler in routes.handlers():
        (method,) = handler.http_methods - {"HEAD"}
        (path,) = handler.paths
        assert f"{method} {path.replace(':str', '').replace('response_id', 'id')}`" in PAGE


@pytest.mark.parametrize("field", sorted(KNOWN_FIELDS))
def test_fields(field: str) -> None:
    assert f"`{field}`" in SECTION or f"`{field}." in SECTION


@pytest.mark.parametrize("code", sorted({rule.code for rule in RULES} - {"invalid_value"}))
def test_codes(code: str) -> None:
    assert f"`{code}`" in SECTION
