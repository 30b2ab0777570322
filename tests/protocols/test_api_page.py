"""docs/api.md names every endpoint, field and code of the protocols."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build
from ninfer_protocols.openai_chat.lowering import RANGES
from ninfer_protocols.openai_chat.requests import ChatRequest
from ninfer_protocols.openai_chat.unsupported import RULES
from ninfer_protocols.wire.efforts import OPENAI_EFFORTS

from ninfer_core.api import ProtocolContext
from ninfer_core.testing.scripted_service import ScriptedService

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()
SOURCES = [
    *(ROOT / "plugins" / "protocols" / "ninfer_protocols").rglob("*.py"),
    *(ROOT / "ninfer_core" / "serving").glob("*.py"),
    ROOT / "ninfer_core" / "api" / "errors.py",
]
INTERNAL = {"client_disconnected", "http_error", "startup_error", "invalid_request"}
"""Never on the wire, or only the name of a base class."""


def test_endpoints() -> None:
    routes = ninfer_protocol_build(context=ProtocolContext(service=ScriptedService(), keep_alive_seconds=5))
    for path in [*(path for handler in routes.handlers() for path in handler.paths), "/health", "/v1/models"]:
        assert f"{path}`" in PAGE


@pytest.mark.parametrize("field", sorted({*ChatRequest.__struct_fields__, *(rule.field for rule in RULES), *RANGES}))
def test_fields(field: str) -> None:
    assert f"`{field}`" in PAGE or f"`{field}." in PAGE


def test_codes() -> None:
    pattern = re.compile(r'\bcode(?:: str)? ?= ?"([a-z_]+)"')
    stated = {code for source in SOURCES for code in pattern.findall(source.read_text())}
    stated |= {rule.code for rule in RULES}
    startup = {"plugin_unknown", "plugin_ambiguous", "plugin_broken", "plugin_incompatible", "artifact_invalid"}
    startup |= {"plugin_provisional"}
    stated -= {*startup, "plan_rejected", "start_failed", *INTERNAL}
    assert len(stated) > 30
    assert sorted(code for code in stated if f"`{code}`" not in PAGE) == []


def test_efforts_that_can_work_are_named() -> None:
    assert all(f"`{effort}`" in PAGE for effort in OPENAI_EFFORTS if effort not in ("minimal", "high", "max"))
