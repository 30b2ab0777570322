"""Tools on the chat wire: what may be called, calls in answers, calls in history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ninfer_protocols.openai_chat.lowering import lower

from ninfer_core.api import FinishReason, GenerationRequest, RequestError, ToolCall
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.scripted_service import EventScript

PATH = "/v1/chat/completions"
Connect = Callable[..., Any]
SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA} | fields}


TOOLS = [tool("first"), tool("second"), tool("third")]


def lowered(**fields: Any) -> GenerationRequest:
    body = {"messages": [{"role": "user", "content": "hi"}]} | fields
    return lower(json.dumps(body).encode(), "tiny").request


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        lowered(**fields)
    return raised.value


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.contract("CHAT-15", "CHAT-40")
def test_definitions_arrive_as_they_were_sent() -> None:
    (first, *_) = lowered(tools=TOOLS).tools
    assert (first.name, first.parameters, first.definition) == ("first", SCHEMA, TOOLS[0])
    # Equal objects may differ in the order of their members, which a prompt shows.
    assert json.dumps(first.definition) == json.dumps(TOOLS[0])
    assert list(first.definition["function"]["parameters"]["properties"]) == ["z", "a"]


@pytest.mark.contract("IMPL-8")
@pytest.mark.parametrize("fields", [{"parameters": None}, {}])
def test_no_parameters_are_an_empty_object(fields: dict[str, Any]) -> None:
    (only,) = lowered(tools=[{"type": "function", "function": {"name": "f"} | fields}]).tools
    assert only.parameters == {"type": "object", "properties": {}}


@pytest.mark.contract("CHAT-15", "TOOL-16")
@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (None, ["first", "second", "third"]),
        ("auto", ["first", "second", "third"]),
        ("none", []),
        (allowed("third", "first"), ["first", "third"]),
        (allowed(), []),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "second"}]}, ["second"]),
    ],
)
def test_the_choice_leaves_tools_in_their_order(choice: Any, left: list[str]) -> None:
    assert [each.name for each in lowered(tools=TOOLS, tool_choice=choice).tools] == left


@pytest.mark.contract("CHAT-15", "CHAT-24", "CHAT-26", "ERR-5", "IMPL-8")
@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"tools": [tool("f", strict=True)]}, "tools[0].function.strict", "strict_tools_not_supported"),
        ({"tools": [tool("f", strict="x")]}, "tools[0].function.strict", "invalid_value"),
        ({"tools": [tool("f g")]}, "tools[0].function.name", "invalid_value"),
        ({"tools": [tool("f" * 65)]}, "tools[0].function.name", "invalid_value"),
        ({"tools": [tool("ok"), tool("f\n")]}, "tools[1].function.name", "invalid_value"),
        ({"tools": [tool("f", description=1)]}, "tools[0].function.description", "invalid_value"),
        ({"tools": [tool("f", parameters=[])]}, "tools[0].function.parameters", "invalid_value"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type", "tool_type_not_supported"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "none"}, "tools[0].type", "tool_type_not_supported"),
        ({"tool_choice": "required", "tools": TOOLS}, "tool_choice", "tool_choice_not_supported"),
        ({"tool_choice": "sometimes"}, "tool_choice", "tool_choice_not_supported"),
        ({"tool_choice": tool("first"), "tools": TOOLS}, "tool_choice", "tool_choice_not_supported"),
        ({"tool_choice": {"type": "custom"}}, "tool_choice", "tool_choice_not_supported"),
        (
            {"tool_choice": allowed("first", mode="required"), "tools": TOOLS},
            "tool_choice.allowed_tools.mode",
            "tool_choice_not_supported",
        ),
        ({"tool_choice": allowed("fourth"), "tools": TOOLS}, "tool_choice", "invalid_tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": 1}}, "tool_choice.allowed_tools", "invalid_value"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": {}}},
            "tool_choice.allowed_tools.tools",
            "invalid_value",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}},
            "tool_choice.allowed_tools.tools[0]",
            "tool_type_not_supported",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(fields: dict[str, Any], param: str, code: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, code)


@pytest.mark.contract("CHAT-16")
def test_one_call_at_most_cannot_be_promised() -> None:
    assert refusal(tools=TOOLS, parallel_tool_calls=False).code == "parallel_tool_calls_not_supported"
    neutral: list[dict[str, Any]] = [{}, {"tools": []}]
    neutral += [{"tools": TOOLS, "tool_choice": choice} for choice in ("none", allowed())]
    for fields in neutral:
        assert lowered(parallel_tool_calls=False, **fields).tools == ()
    assert len(lowered(parallel_tool_calls=True, tools=TOOLS).tools) == 3


CALLED = EventScript(pieces=(("content", "Look."),), calls=(("f", {"z": "é", "a": 1}), ("g", {})))


@pytest.mark.contract("CHAT-41", "CHAT-45", "IMPL-1", "TOOL-14")
def test_a_streamed_call_is_one_chunk(connect: Connect) -> None:
    client, _ = connect(CALLED)
    chunks = data_payloads(client.post(PATH, json=body(stream=True, return_progress=True)).text)
    assert chunks[-1] == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks[:-1]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [call["index"] for call in calls] == [0, 1]
    assert [(call["type"], call["function"]) for call in calls] == [
        ("function", {"name": "f", "arguments": '{"z":"é","a":1}'}),
        ("function", {"name": "g", "arguments": "{}"}),
    ]
    assert all(call["id"].startswith("call_") and len(call["id"]) == 21 for call in calls)
    assert calls[0]["id"] != calls[1]["id"]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    assert "tool_calls" not in choices[-1]["delta"]


@pytest.mark.contract("IMPL-4")
@pytest.mark.parametrize(("pieces", "content"), [((), None), ((("content", "Look."),), "Look.")])
def test_an_aggregate_call_has_null_content_where_there_is_no_text(
    connect: Connect, pieces: Any, content: str | None
) -> None:
    client, _ = connect(EventScript(pieces=pieces, calls=CALLED.calls))
    (choice,) = client.post(PATH, json=body()).json()["choices"]
    message = choice["message"]
    assert (message["content"], choice["finish_reason"]) == (content, "tool_calls")
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"z":"é","a":1}', "{}"]
    assert "index" not in message["tool_calls"][0]


@pytest.mark.contract("IMPL-5", "CHAT-47")
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop_token", "tool_calls"),
        ("stop_string", "tool_calls"),
        ("output_limit", "length"),
        ("context_capacity", "length"),
    ],
)
def test_a_limit_goes_before_calls(connect: Connect, reason: FinishReason, expected: str) -> None:
    client, _ = connect(EventScript(pieces=(), calls=CALLED.calls, reason=reason))
    assert client.post(PATH, json=body()).json()["choices"][0]["finish_reason"] == expected
    assert data_payloads(client.post(PATH, json=body(stream=True)).text)[-2]["choices"][0]["finish_reason"] == expected


@pytest.mark.contract("CHAT-3", "CHAT-17", "CHAT-31", "CHAT-41")
def test_an_answer_can_be_sent_back_as_history(connect: Connect) -> None:
    client, service = connect(CALLED)
    message = client.post(PATH, json=body()).json()["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "name": "any", "content": f"result {number}"}
        for number, call in enumerate(message["tool_calls"])
    ]
    assert client.post(PATH, json=body(messages=[*body()["messages"], message, *results])).status_code == 200
    told, first, second = service.requests[-1].messages[-3:]
    ids = [call["id"] for call in message["tool_calls"]]
    assert told.tool_calls == (
        ToolCall(name="f", arguments={"z": "é", "a": 1}, call_id=ids[0]),
        ToolCall(name="g", arguments={}, call_id=ids[1]),
    )
    assert list(told.tool_calls[0].arguments) == ["z", "a"]
    assert [(turn.role, turn.call_id, turn.text) for turn in (first, second)] == [
        ("tool", ids[0], "result 0"),
        ("tool", ids[1], "result 1"),
    ]


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS} | fields
