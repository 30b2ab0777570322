"""The official client, in strict mode, against a live server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build

from ninfer_core.testing.live_server import LiveServer
from ninfer_core.testing.scripted_server import scripted_server

WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}
CALL = {"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}
ANSWERS = [
    {"match": "weather", "reasoning": "I must look.", "content": "Looking.", "tool_calls": [CALL]},
    {"match": "weather", "content": "12 C in Oslo."},
    {"match": "count", "content": "one two END three"},
    {"match": "long", "content": "a b c d e", "finish": "length"},
    {"match": "break", "content": "half", "fail": True},
    {"content": "Hello there."},
]


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with scripted_server(
        ANSWERS, lambda context: [ninfer_protocol_build(context=context)], api_key="k1", keep_alive_seconds=0.05
    ) as running:
        yield running


@pytest.fixture
def sdk(server: LiveServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=server.base_url, api_key="k1", max_retries=0, timeout=20, _strict_response_validation=True
    ) as client:
        yield client


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "local", "max_tokens": 200, "messages": [{"role": "user", "content": text}], **fields}


def without_ids(message: anthropic.types.Message) -> list[dict[str, Any]]:
    return [block.model_dump(exclude={"id", "signature"}) for block in message.content]


@pytest.mark.contract("GEN-13", "ANTH-40")
def test_a_message(sdk: anthropic.Anthropic) -> None:
    answer = sdk.messages.create(**ask("hi", system="Be brief.", extra_body={"temperature": 0.5}))
    (block,) = [block for block in answer.content if block.type == "text"]
    assert (block.text, answer.stop_reason, answer.model) == ("Hello there.", "end_turn", "local")
    assert answer._request_id is not None and answer._request_id.startswith("req_")
    assert answer.usage.output_tokens > 0 and answer.usage.cache_creation_input_tokens is None


@pytest.mark.contract("ANTH-31", "ANTH-12", "ANTH-26", "CHAT-41")
def test_the_stream_helper_gives_the_aggregate(sdk: anthropic.Anthropic) -> None:
    request = ask("What is the weather?", tools=[WEATHER], thinking={"type": "enabled", "budget_tokens": 1024})
    request["max_tokens"] = 2000
    whole = sdk.messages.create(**request)
    sdk.messages.create(**request)
    with sdk.messages.stream(**request) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"]
    assert without_ids(final) == without_ids(whole) and final.stop_reason == whole.stop_reason == "tool_use"
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.input_tokens == whole.usage.input_tokens
    assert {"thinking", "signature", "text", "input_json", "content_block_stop", "message_stop"} <= set(kinds)


@pytest.mark.contract("ANTH-13", "ANTH-19")
def test_a_tool_loop_with_its_own_history(sdk: anthropic.Anthropic) -> None:
    request = ask("What is the weather?", tools=[WEATHER])
    called = sdk.messages.create(**request)
    (use,) = [block for block in called.content if block.type == "tool_use"]
    assert use.input == CALL["arguments"]
    result: Any = {"type": "tool_result", "tool_use_id": use.id, "content": "12 C"}
    request["messages"] += [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    assert sdk.messages.create(**request).content[-1].model_dump()["text"] == "12 C in Oslo."


@pytest.mark.contract("ANTH-32", "ANTH-42")
def test_counted_tokens_are_those_of_the_answer(sdk: anthropic.Anthropic) -> None:
    request = ask("hi", tools=[WEATHER], system=[{"type": "text", "text": "Be brief."}])
    usage = sdk.messages.create(**request).usage
    del request["max_tokens"]
    counted = sdk.messages.count_tokens(**request)
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@pytest.mark.contract("ANTH-9", "ANTH-10")
def test_stop_reasons(sdk: anthropic.Anthropic) -> None:
    stopped = sdk.messages.create(**ask("count", stop_sequences=["END"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "END")
    assert stopped.content[-1].model_dump()["text"] == "one two "
    assert sdk.messages.create(**ask("long", max_tokens=20)).stop_reason == "max_tokens"


@pytest.mark.contract("ANTH-3")
def test_a_prefill(sdk: anthropic.Anthropic) -> None:
    request = ask("hi")
    request["messages"].append({"role": "assistant", "content": "Well: "})
    assert [block.type for block in sdk.messages.create(**request).content] == ["text"]


@pytest.mark.contract("ANTH-30", "ANTH-41", "AUTH-1")
def test_errors(sdk: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as wrong:
        sdk.messages.create(**ask("hi", extra_body={"temperature": 2}))
    assert wrong.value.request_id is not None and wrong.value.type == "invalid_request_error"
    with pytest.raises(anthropic.AuthenticationError):
        sdk.with_options(api_key="k2").messages.create(**ask("hi"))
    with pytest.raises(anthropic.NotFoundError):
        sdk.post("/v1/messages/batches", cast_to=object, body={})


@pytest.mark.contract("ANTH-44")
def test_a_stream_that_breaks_raises(sdk: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.APIStatusError) as broken, sdk.messages.stream(**ask("break")) as stream:
        stream.get_final_message()
    assert broken.value.body["error"]["type"] == "api_error"  # type: ignore[index]


def test_the_asynchronous_client(server: LiveServer) -> None:
    async def converse() -> str:
        async with (
            anthropic.AsyncAnthropic(
                base_url=server.base_url, api_key="k1", max_retries=0, _strict_response_validation=True
            ) as client,
            client.messages.stream(**ask("hi")) as stream,
        ):
            return "".join([text async for text in stream.text_stream])

    assert asyncio.run(converse()) == "Hello there."
