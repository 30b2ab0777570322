"""Requests made from the server's own OpenAPI document, right ones and wrong ones, and answers held to its types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from ninfer_protocols.anthropic import ninfer_protocol_build as build_anthropic
from ninfer_protocols.openai_chat import ninfer_protocol_build as build_chat
from ninfer_protocols.openai_responses import ninfer_protocol_build as build_responses
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from ninfer_core.serving.asgi import Application
from ninfer_core.testing.scripted_application import exchange, listening, scripted_application
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

BUILDS: tuple[Callable[..., Any], ...] = (build_chat, build_responses, build_anthropic)
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
OPERATIONS = 14
MODEL = "scripted-model"
SCRIPT = EventScript(pieces=(("reasoning", "Hm."), ("content", "Fine.")), calls=(("f", {"a": 1}),))


@pytest.fixture(scope="module")
def service() -> ScriptedService:
    return ScriptedService(SCRIPT)


@pytest.fixture(scope="module")
def app(service: ScriptedService) -> Application:
    return scripted_application(service, BUILDS)


@pytest.fixture(scope="module")
def schema(app: Application) -> Iterator[Any]:
    with listening(app) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


def test_every_route_is_in_the_document(app: Application) -> None:
    document = exchange(app, "GET", "/openapi.json").json()
    methods = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert len(methods) == OPERATIONS
    chat = document["paths"]["/v1/chat/completions"]["post"]
    assert set(chat["responses"]) == {"200", "4XX", "5XX"}
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    wanted = chat["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    assert "messages" in document["components"]["schemas"][wanted]["required"]


@pytest.mark.contract("GEN-8", "GEN-9", "GEN-13", "CHAT-13")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/responses", {"model": MODEL, "input": "x"}),
        ("/v1/messages", {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": 9}),
    ],
)
@pytest.mark.parametrize("stream", [None, False, True])
def test_an_answer_has_its_type(schema: Any, path: str, body: dict[str, Any], stream: bool | None) -> None:
    """What is generated is refused more often than answered: here is one that is answered for certain."""
    case = schema[path]["POST"].Case(body=body | ({} if stream is None else {"stream": stream}))
    response = case.call()
    assert response.status_code == 200
    case.validate_response(response, checks=CHECKS)


def modes(operation: Any) -> list[GenerationMode]:
    """No text is a wrong id, and where nothing is sent nothing can be wrong."""
    sent = operation.definition.raw
    queries = any(parameter["in"] == "query" for parameter in sent["parameters"])
    if "requestBody" in sent or queries:
        return [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    return [GenerationMode.POSITIVE] if sent["parameters"] else []


def run(schema: Any, service: ScriptedService, examples: int) -> int:
    """-> how many requests were sent."""
    sent = 0
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == OPERATIONS - 1  # all but the document itself
    for operation in operations:
        for mode in modes(operation):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def one(case: Any) -> None:
                nonlocal sent
                case.call_and_validate(checks=CHECKS)
                sent += 1

            one()
    assert service.open_generations == 0
    return sent


def test_some_generated_requests(schema: Any, service: ScriptedService) -> None:
    assert run(schema, service, 4) >= 60


@pytest.mark.long
def test_many_generated_requests(schema: Any, service: ScriptedService) -> None:
    assert run(schema, service, 100) >= 1500
