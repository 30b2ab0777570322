"""The official client, in strict mode, against a live server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from ninfer_protocols.openai_responses import ninfer_protocol_build

from ninfer_core.testing.live_server import LiveServer
from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
MAPS: Any = {"type": "namespace", "name": "maps", "description": "Maps", "tools": [WEATHER]}
ANSWERS: list[dict[str, Any]] = [
    {
        "match": "weather",
        "reasoning": "I must look.",
        "content": "Looking.",
        "tool_calls": [{"name": "maps__get_weather", "arguments": {"city": "Oslo"}}],
    },
    {"match": "weather", "content": "12 C in Oslo."},
    {"match": "long", "content": "a b c d e", "finish": "length"},
    {"match": "break", "content": "half", "fail": True},
    {"reasoning": "Greet.", "content": "Hello there."},
]


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with scripted_server(
        ANSWERS, lambda context: [ninfer_protocol_build(context=context)], api_key="k1", keep_alive_seconds=0.05
    ) as running:
        yield running


@pytest.fixture
def sdk(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=server.base_url + "/v1",
        api_key="k1",
        max_retries=0,
        timeout=20,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.mark.contract("GEN-9", "RESP-48", "RESP-54", "RESP-55")
def test_create(sdk: openai.OpenAI) -> None:
    response = sdk.responses.create(model=MODEL_ID, input="Hi", instructions="Be kind.", metadata={"a": "b"})
    assert (response.status, response.output_text) == ("completed", "Hello there.")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage is not None and response.usage.output_tokens_details.reasoning_tokens > 0
    assert response._request_id is not None and response._request_id.startswith("req_")


@pytest.mark.contract("RESP-57", "RESP-58", "RESP-59", "RESP-60", "RESP-61")
def test_stream(sdk: openai.OpenAI) -> None:
    events = list(sdk.responses.create(model=MODEL_ID, input="Hi", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello there."
    assert "".join(event.delta for event in events if event.type == "response.reasoning_text.delta") == "Greet."
    last = events[-1]
    assert last.type == "response.completed" and last.response.output_text == "Hello there."


@pytest.mark.contract("RESP-61")
def test_stream_helper(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(model=MODEL_ID, input="the weather?", tools=[MAPS]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.done" in kinds
    call = final.output[-1]
    assert call.type == "function_call" and (call.namespace, call.name) == ("maps", "get_weather")


@pytest.mark.contract("RESP-33", "RESP-44", "RESP-63")
@pytest.mark.parametrize("replays", [False, True])
def test_a_tool_loop(sdk: openai.OpenAI, replays: bool) -> None:
    asked: Any = {"type": "message", "role": "user", "content": "the weather?"}
    first = sdk.responses.create(model=MODEL_ID, input=[asked], tools=[MAPS], store=not replays)
    call = first.output[-1]
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "12 C"}
    if replays:
        history: Any = [asked, *(item.to_dict() for item in first.output), result]
        second = sdk.responses.create(model=MODEL_ID, input=history, tools=[MAPS], store=False)
    else:
        second = sdk.responses.create(model=MODEL_ID, input=[result], tools=[MAPS], previous_response_id=first.id)
    assert second.output_text == "12 C in Oslo."


@pytest.mark.contract("GEN-11", "RESP-67", "RESP-68", "RESP-69", "RESP-73")
def test_resources(sdk: openai.OpenAI) -> None:
    created = sdk.responses.create(model=MODEL_ID, input="Hi")
    assert sdk.responses.retrieve(created.id) == created
    items = list(sdk.responses.input_items.list(created.id, order="asc", limit=1))
    assert [item.type for item in items] == ["message"]
    counted = sdk.responses.input_tokens.count(model=MODEL_ID, input="Hi")
    assert created.usage is not None and counted.input_tokens == created.usage.input_tokens
    sdk.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.responses.retrieve(created.id)
    assert missing.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError):
        sdk.responses.cancel(created.id)
    with pytest.raises(openai.BadRequestError):
        sdk.responses.compact(model=MODEL_ID)


@pytest.mark.contract("RESP-50")
def test_the_limit(sdk: openai.OpenAI) -> None:
    response = sdk.responses.create(model=MODEL_ID, input="a long one", max_output_tokens=40)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.contract("RESP-51", "GEN-3")
def test_the_engine_fails(sdk: openai.OpenAI) -> None:
    events = list(sdk.responses.create(model=MODEL_ID, input="break", stream=True))
    last = events[-1]
    assert last.type == "response.failed" and last.response.error is not None
    assert last.response.error.code == "server_error"
    with pytest.raises(openai.InternalServerError) as unavailable:
        sdk.responses.create(model=MODEL_ID, input="Hi")
    assert unavailable.value.status_code == 503


def test_structured_output_is_refused(sdk: openai.OpenAI) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}}
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.responses.create(model=MODEL_ID, input="Hi", text=form)
    assert refused.value.code == "structured_outputs_not_supported"
