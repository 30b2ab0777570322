"""OpenAI's Agents SDK runs a tool loop over Responses and over Chat Completions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import agents
import openai
import pytest
from ninfer_protocols import openai_chat, openai_responses

from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

ANSWERS: list[dict[str, Any]] = [
    {
        "match": "Compare",
        "reasoning": "Both cities.",
        "content": "I look both up.",
        "tool_calls": [
            {"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}},
            {"name": "get_weather", "arguments": {"city": "Rome", "days": 2}},
        ],
    },
    {"match": "Compare", "reasoning": "Hm.", "tool_calls": [{"name": "difference", "arguments": {"a": 4, "b": 21}}]},
    {"match": "Compare", "content": "Rome is 17 degrees warmer."},
]

ModelOf = Callable[[openai.AsyncOpenAI], agents.Model]


@pytest.fixture
def base_url() -> Iterator[str]:
    builds = (openai_chat.ninfer_protocol_build, openai_responses.ninfer_protocol_build)
    with scripted_server(ANSWERS, lambda context: [build(context=context) for build in builds]) as server:
        yield server.base_url + "/v1"


async def run(base_url: str, model_of: ModelOf, *, stream: bool) -> tuple[str, list[str], list[Any]]:
    """The last answer, what the tools were asked for, and the whole history as the SDK replays it."""
    asked: list[str] = []

    # The server constrains no arguments, so definitions must not ask for it.
    @agents.function_tool(strict_mode=False)
    def get_weather(city: str, days: int) -> str:
        """The temperature in a city."""
        asked.append(f"get_weather {city} {days}")
        return {"Oslo": "4", "Rome": "21"}[city]

    @agents.function_tool(strict_mode=False)
    def difference(a: int, b: int) -> str:
        """The difference of two numbers."""
        asked.append(f"difference {a} {b}")
        return str(b - a)

    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=20) as client:
        agent = agents.Agent(
            name="weather", instructions="Be brief.", model=model_of(client), tools=[get_weather, difference]
        )
        question = "Compare Oslo and Rome."
        if stream:
            streamed = agents.Runner.run_streamed(agent, question)
            async for _ in streamed.stream_events():
                pass
            return str(streamed.final_output), asked, streamed.to_input_list()
        result = await agents.Runner.run(agent, question)
        return str(result.final_output), asked, result.to_input_list()


@pytest.mark.contract("RESP-33", "RESP-35", "RESP-45", "CHAT-15", "CHAT-17")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "model_of",
    [
        lambda client: agents.OpenAIResponsesModel(MODEL_ID, client),
        lambda client: agents.OpenAIChatCompletionsModel(MODEL_ID, client),
    ],
    ids=["responses", "chat"],
)
def test_a_tool_loop_of_three_turns(base_url: str, model_of: ModelOf, stream: bool) -> None:
    agents.set_tracing_disabled(True)
    final, asked, history = asyncio.run(run(base_url, model_of, stream=stream))
    assert final == "Rome is 17 degrees warmer."
    assert sorted(asked[:2]) == ["get_weather Oslo 2", "get_weather Rome 2"] and asked[2:] == ["difference 4 21"]
    calls = [item["call_id"] for item in history if item.get("type") == "function_call"]
    results = [item["call_id"] for item in history if item.get("type") == "function_call_output"]
    assert len(calls) == 3 and sorted(calls) == sorted(results)
