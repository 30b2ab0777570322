"""Generated text all the way to the chat wire: session, stop strings, parser, events, JSON and SSE."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build, ninfer_protocol_lower

from ninfer_core.api import ProtocolContext, ProtocolRoutes, ThinkingDefaults
from ninfer_core.plugins import PluginRegistry
from ninfer_core.telemetry import create_log
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.parser_cases import ParserCase, check_parsed, read_parser_cases
from ninfer_core.testing.scripted_server import scripted_server
from ninfer_core.testing.tiny import tiny_header

PATH = "/v1/chat/completions"
CASES = read_parser_cases(Path(__file__).parents[2] / "cases" / "parser.jsonl")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
DECLARABLE = [case for case in CASES if all(NAME.fullmatch(tool["function"]["name"]) for tool in case.tools)]
CALL = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}}


def chat(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [ninfer_protocol_build(context=context)]


def answer_of(case: ParserCase) -> dict[str, Any]:
    chunks = [base64.b64encode(piece).decode() for piece in case.pieces]
    return {"match": f"case {case.id}.", "chunks_b64": chunks, "finish": case.engine_finish, "tokens_per_round": 3}


@pytest.fixture(scope="module")
def http() -> Iterator[dict[bool, httpx.Client]]:
    """Clients of a strict and of a tolerant server that say every case."""
    answers = [answer_of(case) for case in CASES]
    with ExitStack() as stack:
        clients = {}
        for tolerant in (False, True):
            server = stack.enter_context(scripted_server(answers, chat, options={"tolerant_tool_calls": tolerant}))
            clients[tolerant] = stack.enter_context(httpx.Client(base_url=server.base_url, timeout=20))
        yield clients


def request_of(case: ParserCase) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"This is case {case.id}."}],
        "enable_thinking": case.initial_channel == "reasoning",
        "tools": case.tools,
        "tool_choice": case.tool_choice,
        "stop": case.stop,
        "max_tokens": len(case.pieces) + 10,
    }


def seen(message: dict[str, Any], finish_reason: str) -> dict[str, Any]:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return {
        "reasoning": message.get("reasoning_content") or "",
        "content": message["content"] or "",
        "tool_calls": [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls],
        "finish_reason": finish_reason,
    }


def joined(stream: str) -> dict[str, Any]:
    """What a client puts together from the chunks."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish_reason = ""
    for chunk in data_payloads(stream)[:-1]:
        (choice,) = chunk["choices"]
        for field in ("content", "reasoning_content"):
            message[field] += choice["delta"].get(field, "")
        for call in choice["delta"].get("tool_calls", ()):
            assert call["index"] == len(message["tool_calls"])
            message["tool_calls"].append(call)
        finish_reason = choice["finish_reason"] or finish_reason
    return seen(message, finish_reason)


@pytest.mark.contract("CHAT-41", "CHAT-45", "CHAT-47", "IMPL-4", "IMPL-5", "TOOL-14", "TOOL-15", "TOOL-16")
@pytest.mark.parametrize("case", DECLARABLE, ids=lambda case: case.id)
def test_a_case_on_the_wire(case: ParserCase, http: dict[bool, httpx.Client]) -> None:
    client = http[case.tolerant]
    (choice,) = client.post(PATH, json=request_of(case)).json()["choices"]
    whole = seen(choice["message"], choice["finish_reason"])
    # The reason of a fallback is in the server's log, not on the wire.
    on_wire = {name: expected for name, expected in case.check.items() if name != "fallback_reason"}
    check_parsed(msgspec.structs.replace(case, check=on_wire), whole)
    assert joined(client.post(PATH, json=request_of(case) | {"stream": True}).text) == whole


@pytest.mark.contract("TOOL-13")
def test_a_fallback_is_one_warning_without_text() -> None:
    written = io.StringIO()
    answers = [{"match": "odd", "raw": CALL + " secret"}, {"match": "even", "raw": CALL}]
    with (
        scripted_server(answers, chat, log=create_log("info", written)) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        for text in ("odd", "even", "odd"):
            http.post(PATH, json=ask(text, enable_thinking=False))
    warnings = [line for line in written.getvalue().splitlines() if " WARNING " in line]
    assert [line.split(" WARNING ")[1] for line in warnings] == [
        "tool_calls_as_text id=1 reason=trailing_content",
        "tool_calls_as_text id=3 reason=trailing_content",
    ]
    assert "secret" not in written.getvalue()


@pytest.mark.contract("TOOL-16")
def test_no_effective_tool_is_no_call() -> None:
    with (
        scripted_server([{"raw": CALL}], chat) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        without: list[dict[str, Any]] = [{"tools": []}, {"tool_choice": "none"}]
        for fields in without:
            (choice,) = http.post(PATH, json=ask("x", enable_thinking=False, **fields)).json()["choices"]
            assert (choice["message"]["content"], choice["finish_reason"]) == (CALL, "stop")


@pytest.mark.contract("CHAT-15", "CHAT-17", "GEN-26")
def test_an_agents_loop() -> None:
    calling = {"reasoning": "Hm.", "content": "I look.", "tool_calls": [{"name": "f", "arguments": {"a": 2}}]}
    answers: list[dict[str, Any]] = [{"match": "weather", **calling}, {"match": "weather", "content": "Rain."}]
    with (
        scripted_server(answers, chat) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        body = ask("the weather")
        message = http.post(PATH, json=body).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":2}'}
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "wet"}
        body["messages"] += [message, result]
        answer = http.post(PATH, json=body).json()
        assert answer["choices"][0]["message"]["content"] == "Rain."
        assert answer["usage"]["prompt_tokens"] > 100


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "tools": [TOOL]} | fields


@pytest.mark.contract("TOOL-8", "GEN-26")
def test_a_schema_adds_nothing_to_a_call_and_forbids_nothing() -> None:
    nested = {"type": "object", "required": ["c"], "properties": {"c": {"type": "integer", "minimum": 5}}}
    properties = {"a": {"type": "integer", "default": 7, "minimum": 100}, "b": nested, "c": {"default": "x"}}
    parameters = {"type": "object", "required": ["a", "c"], "properties": properties, "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    written = {"b": {"c": "text", "d": 1}, "z": 1}
    with (
        scripted_server([{"tool_calls": [{"name": "f", "arguments": written}]}], chat) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        (choice,) = http.post(PATH, json=ask("x", tools=[tool])).json()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == written


@pytest.mark.contract("GEN-21", "GEN-22")
def test_no_request_switches_on_what_the_start_left_out() -> None:
    wishes = {"vision": True, "spec": "mtp", "draft_tokens": 3, "lm_head_draft": True, "max_context": 10**6}
    image = {"type": "image_url", "image_url": "data:image/png;base64,AAAA"}
    with (
        scripted_server([{"content": "So."}], chat) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        plain, wished = (http.post(PATH, json=ask("x", **fields)).json() for fields in ({}, wishes))
        assert [answer["usage"] for answer in (plain, wished)] == [plain["usage"]] * 2
        assert "draft_n" not in wished["timings"]
        refused = http.post(PATH, json={"messages": [{"role": "user", "content": [image]}]} | wishes)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "vision_disabled")


@pytest.mark.contract("TMPL-16", "CHAT-18")
def test_another_effort_is_another_prompt() -> None:
    registry = PluginRegistry.discover()
    family = registry.load(registry.select("family", "qwen-hybrid"))
    frontend = family.hook.ninfer_family_frontend(header=tiny_header())
    efforts = ("none", *frontend.capabilities.efforts)
    bodies = [json.dumps(ask("x", reasoning_effort=effort)).encode() for effort in efforts]
    prompts = [frontend.prepare(ninfer_protocol_lower(body=body), ThinkingDefaults()) for body in bodies]
    assert len({prompt.token_ids for prompt in prompts}) == len(efforts) >= 4


@pytest.mark.contract("CHAT-14", "OBS-9", "OBS-10", "OBS-11", "OBS-13")
def test_progress_follows_the_units_of_the_prompt() -> None:
    answer = {"content": "So.", "prompt_delay_ms": 20}
    options = {"prefill_chunk": 128}
    with (
        scripted_server([answer], chat, options=options) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        chunks = data_payloads(http.post(PATH, json=ask("word " * 500, stream=True, return_progress=True)).text)[:-1]
    kinds = ["progress" if "prompt_progress" in chunk else "other" for chunk in chunks]
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    total = told[0]["total"]
    units = [*range(0, total, 128), total]
    processed = [each["processed"] for each in told]
    # Units may coalesce where the client's side is slow (OBS-10): what is told are some of them, in their order.
    assert total > 500 and processed == [count for count in units if count in processed]
    assert processed[0] == 0 and processed[-1] == total and len(processed) > 3
    assert all((each["cache"], each["total"]) == (0, total) for each in told)
    assert told[0]["time_ms"] == 0 and all(a["time_ms"] < b["time_ms"] for a, b in pairwise(told))
    assert all(each["time_ms"] >= 20 * units.index(each["processed"]) - 1 for each in told)
    assert kinds[: len(told) + 1] == ["other", *["progress"] * len(told)] and "progress" not in kinds[len(told) + 1 :]


@pytest.mark.contract("OBS-8", "OBS-14")
def test_live_timings_count_what_is_held_back() -> None:
    """A smile in four bytes, the beginning of a stop string and of a call: none is seen when it is committed."""
    tokens = [b"a", *(bytes([byte]) for byte in "🙂".encode()), b"STO", b"b", b" <tool", b"_call>", b"c"]
    answer = {"chunks_b64": [base64.b64encode(token).decode() for token in tokens], "delay_ms": 40}
    fields = {"enable_thinking": False, "stop": ["STOP"], "stream": True, "timings_per_token": True}
    with (
        scripted_server([answer], chat) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        chunks = data_payloads(http.post(PATH, json=ask("x", **fields)).text)[:-1]
    seen = [(chunk["choices"][0]["delta"]["content"], chunk["timings"]["predicted_n"]) for chunk in chunks[1:-1]]
    assert seen == [("a", 1), ("🙂", 5), ("STOb", 7), (" <tool_call>c", 10)]
    assert chunks[-1]["timings"]["predicted_n"] == len(tokens) + 1  # and the model's own stop token
