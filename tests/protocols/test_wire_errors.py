"""Every typed error that a protocol can meet has a status and a body of the protocol's own form."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ninfer_protocols import anthropic, openai_chat, openai_responses

import ninfer_core
from ninfer_core.api import ErrorCategory, NinferError, ProtocolContext, ProtocolRoutes, RequestError
from ninfer_core.testing.scripted_service import ScriptedService

PROTOCOLS = [openai_chat, anthropic, openai_responses]
CORE = Path(ninfer_core.__file__).parent

OPENAI = {
    ErrorCategory.INVALID_REQUEST: (400, "invalid_request_error"),
    ErrorCategory.AUTHENTICATION: (401, "authentication_error"),
    ErrorCategory.NOT_FOUND: (404, "invalid_request_error"),
    ErrorCategory.TOO_LARGE: (413, "invalid_request_error"),
    ErrorCategory.OVERLOADED: (429, "rate_limit_error"),
    ErrorCategory.TIMEOUT: (503, "server_error"),
    ErrorCategory.UNAVAILABLE: (503, "server_error"),
    ErrorCategory.CANCELLED: (499, "request_cancelled"),
    ErrorCategory.INTERNAL: (500, "server_error"),
    ErrorCategory.STARTUP: (500, "server_error"),
}
ANTHROPIC = {
    ErrorCategory.INVALID_REQUEST: (400, "invalid_request_error"),
    ErrorCategory.AUTHENTICATION: (401, "authentication_error"),
    ErrorCategory.NOT_FOUND: (404, "not_found_error"),
    ErrorCategory.TOO_LARGE: (413, "request_too_large"),
    ErrorCategory.OVERLOADED: (529, "overloaded_error"),
    ErrorCategory.TIMEOUT: (504, "timeout_error"),
    ErrorCategory.UNAVAILABLE: (503, "api_error"),
    ErrorCategory.CANCELLED: (499, "api_error"),
    ErrorCategory.INTERNAL: (500, "api_error"),
    ErrorCategory.STARTUP: (500, "api_error"),
}
EXPECTED = {openai_chat: OPENAI, openai_responses: OPENAI, anthropic: ANTHROPIC}

WORDS: dict[str, Any] = {"message": "words of its own", "asked": "asked", "served": "served", "reason": "reason"}
"""Arguments by name; every other one is a number."""


def request_errors() -> list[type[RequestError]]:
    """Every class of the core and of the protocols, whoever defines it."""
    for path in [*CORE.glob("serving/*.py"), *CORE.glob("engine/*.py"), *CORE.glob("api/*.py")]:
        importlib.import_module(f"ninfer_core.{path.parent.name}.{path.stem}")
    for module in ("openai_responses.store", "wire.media", "wire.rules"):
        importlib.import_module(f"ninfer_protocols.{module}")
    return sorted(set(_below(RequestError)), key=lambda kind: kind.__name__)


def _below(kind: type[RequestError]) -> Iterator[type[RequestError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def made(kind: type[RequestError]) -> RequestError:
    """An instance, with whatever its constructor wants."""
    code = kind.__init__.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    defaults = len(kind.__init__.__defaults__ or ())
    positional = names[: code.co_argcount - 1]
    wanted = positional[: len(positional) - defaults]
    keywords = [name for name in names[len(positional) :] if name not in (kind.__init__.__kwdefaults__ or {})]
    given = [WORDS.get(name, 400 if name == "status" else "r_1") for name in wanted]
    if "code" in keywords:
        WORDS["code"] = "a_code"
    return kind(*given, **{name: WORDS.get(name, 7) for name in keywords})


def routes_of(protocol: Any) -> ProtocolRoutes:
    context = ProtocolContext(service=ScriptedService(), keep_alive_seconds=5)
    routes: ProtocolRoutes = protocol.ninfer_protocol_build(context=context)
    return routes


def check(protocol: Any, error: NinferError) -> None:
    wire = routes_of(protocol).wire_error(error)
    status, kind = EXPECTED[protocol][error.category]
    body: dict[str, Any] = json.loads(msgspec.json.encode(wire.body))
    assert (wire.status, body["error"]["type"], body["error"]["code"]) == (status, kind, error.code)
    assert body["error"]["message"]
    if protocol is anthropic:
        assert body["type"] == "error" and body["request_id"] == wire.headers["request-id"]
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["param"] == getattr(error, "param", None)
        assert ("www-authenticate" in wire.headers) == (status == 401)


@pytest.mark.contract("ERR-1", "ERR-3", "ANTH-30")
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__.split(".")[-1])
@pytest.mark.parametrize("category", ErrorCategory, ids=lambda category: category.value)
def test_every_category_has_a_status(protocol: Any, category: ErrorCategory) -> None:
    error = RequestError("words", code="a_code", param="field")
    error.category = category
    check(protocol, error)


@pytest.mark.contract("ERR-1", "ANTH-41")
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__.split(".")[-1])
@pytest.mark.parametrize("kind", request_errors(), ids=lambda kind: kind.__name__)
def test_every_request_error_is_mapped(protocol: Any, kind: type[RequestError]) -> None:
    check(protocol, made(kind))


def test_no_error_was_missed() -> None:
    assert len(request_errors()) >= 17
    assert set(EXPECTED[anthropic]) == set(OPENAI) == set(ErrorCategory)
