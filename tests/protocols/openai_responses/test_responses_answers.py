"""Response objects and event streams, over a scripted service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import (
    FinishReason,
    GenerationFailed,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.testing.event_streams import named_events
from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]
TOOLS = [
    {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"p": {"type": "string"}}}},
    {"type": "namespace", "name": "maps", "description": "Maps", "tools": [{"type": "function", "name": "look"}]},
]
ALL = EventScript(
    pieces=(("reasoning", "Hm"), ("reasoning", "m."), ("content", "OK"), ("content", ".")),
    calls=(("look", {"z": 1, "a": "é"}), ("maps__look", {})),
    cached_tokens=3,
)
DELTAS = {
    "reasoning": ("response.reasoning_text.delta", lambda item: item["content"][0]["text"]),
    "message": ("response.output_text.delta", lambda item: item["content"][0]["text"]),
    "function_call": ("response.function_call_arguments.delta", lambda item: item["arguments"]),
}


@pytest.mark.contract("GEN-9", "RESP-45", "RESP-48", "RESP-49", "RESP-52", "RESP-54", "RESP-77")
def test_a_whole_answer(connect: Connect) -> None:
    answer = connect(ALL).create(tools=TOOLS)
    assert (answer["object"], answer["status"], answer["model"]) == ("response", "completed", "scripted-model")
    assert re.fullmatch(r"resp_[0-9a-f]{32}", answer["id"])
    assert answer["completed_at"] >= answer["created_at"] > 0
    assert (answer["error"], answer["incomplete_details"]) == (None, None)
    assert "output_text" not in answer
    reasoning, message, first, second = answer["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hmm."}] and reasoning["summary"] == []
    assert message["content"] == [{"type": "output_text", "text": "OK.", "annotations": [], "logprobs": []}]
    assert (message["role"], message["status"]) == ("assistant", "completed")
    assert (first["name"], "namespace" in first, list(json.loads(first["arguments"]))) == ("look", False, ["z", "a"])
    assert (second["name"], second["namespace"], second["arguments"]) == ("look", "maps", "{}")
    for item, prefix in zip(answer["output"], ("rs", "msg", "fc", "fc"), strict=True):
        assert re.fullmatch(prefix + "_[0-9a-f]{32}", item["id"])
    assert all(re.fullmatch(r"call_[0-9a-f]{16}", call["call_id"]) for call in (first, second))
    assert len({first["call_id"], second["call_id"], first["id"], second["id"]}) == 4


@pytest.mark.contract("RESP-55", "RESP-56")
def test_usage(connect: Connect) -> None:
    usage = connect(ALL).create()["usage"]
    assert usage == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 13,
    }


@pytest.mark.contract("RESP-5", "RESP-15", "RESP-18", "RESP-42", "RESP-43")
def test_what_was_asked_is_repeated(connect: Connect) -> None:
    asked = {
        "instructions": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.25,
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "user": "u",
        "max_tool_calls": 3,
        "tool_choice": "none",
        "store": False,
    }
    answer = connect().create(**asked, tools=TOOLS, reasoning={"effort": "low"}, service_tier="auto")
    assert {field: answer[field] for field in asked} == asked
    assert (answer["max_output_tokens"], answer["service_tier"], answer["truncation"]) == (None, "default", "disabled")
    assert (answer["reasoning"], answer["parallel_tool_calls"]) == ({"effort": "low", "summary": None}, True)
    assert [tool["type"] for tool in answer["tools"]] == ["function", "namespace"]
    assert answer["tools"][0]["strict"] is False


@pytest.mark.contract("RESP-50", "RESP-52", "RESP-60")
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("stop_token", "completed"),
        ("stop_string", "completed"),
        ("output_limit", "incomplete"),
        ("context_capacity", "incomplete"),
    ],
)
def test_how_answers_end(connect: Connect, reason: FinishReason, status: str) -> None:
    connection = connect(EventScript(reason=reason))
    kind, last = connection.stream()[-1]
    assert kind == f"response.{status}"
    for answer in (connection.create(), last["response"]):
        assert answer["status"] == status
        incomplete = status == "incomplete"
        assert answer["incomplete_details"] == ({"reason": "max_output_tokens"} if incomplete else None)
        assert (answer["completed_at"] is None) is incomplete
        assert answer["output"][-1]["status"] == status


@pytest.mark.contract("RESP-53")
@pytest.mark.parametrize(
    ("pieces", "kinds"), [((("reasoning", "long"),), ["reasoning"]), ((), []), ((("content", "x"),), ["message"])]
)
def test_nothing_is_invented(connect: Connect, pieces: Any, kinds: list[str]) -> None:
    answer = connect(EventScript(pieces=pieces, reason="output_limit")).create(max_output_tokens=1)
    assert [item["type"] for item in answer["output"]] == kinds
    assert answer["completed_at"] is None


@pytest.mark.contract("RESP-57", "RESP-58", "RESP-59", "RESP-60", "RESP-61")
@pytest.mark.parametrize(
    "script", [ALL, EventScript(), EventScript(pieces=()), EventScript(pieces=(), calls=(("look", {}),))]
)
def test_a_stream(connect: Connect, script: EventScript) -> None:
    events = connect(script).stream(tools=TOOLS)
    assert [payload["type"] for _, payload in events] == [kind for kind, _ in events]
    assert [payload["sequence_number"] for _, payload in events] == list(range(len(events)))
    assert [kind for kind, _ in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0][1]["response"]["status"] == "in_progress"
    assert [kind for kind, _ in events[2:] if kind.startswith("response.comp")] == ["response.completed"]
    assert events[-1][0] == "response.completed"
    output = events[-1][1]["response"]["output"]
    rest = events[2:-1]
    for index, item in enumerate(output):
        delta_kind, text = DELTAS[item["type"]]
        own = [(kind, payload) for kind, payload in rest if payload["output_index"] == index]
        rest = rest[len(own) :]
        kinds = list(dict.fromkeys(kind for kind, _ in own))
        part = [] if item["type"] == "function_call" else ["response.content_part.added"]
        done = [] if item["type"] == "function_call" else ["response.content_part.done"]
        assert kinds == [
            "response.output_item.added",
            *part,
            delta_kind,
            delta_kind.replace("delta", "done"),
            *done,
            "response.output_item.done",
        ]
        assert "".join(payload["delta"] for kind, payload in own if kind == delta_kind) == text(item)
        assert {payload.get("item_id", item["id"]) for _, payload in own} == {item["id"]}
        assert own[0][1]["item"]["id"] == item["id"] and own[0][1]["item"]["status"] == "in_progress"
        assert own[-1][1]["item"] == item
    assert rest == []


@pytest.mark.contract("RESP-61", "GEN-9")
def test_a_stream_says_what_a_whole_answer_says(connect: Connect) -> None:
    connection = connect(ALL)
    streamed = connection.stream(tools=TOOLS, store=False)[-1][1]["response"]

    def without_ids(answer: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(answer | {"created_at": 0, "completed_at": 0})
        return json.loads(re.sub(r"(resp|rs|msg|fc|call)_[0-9a-f]{16,32}", "id", text))  # type: ignore[no-any-return]

    assert without_ids(streamed) == without_ids(connection.create(tools=TOOLS, store=False))


@pytest.mark.contract("RESP-20", "RESP-60")
def test_no_sentinel_and_no_padding(connect: Connect) -> None:
    response = connect().post(stream=True, stream_options={"include_obfuscation": True})
    assert "[DONE]" not in response.text and "obfuscation" not in response.text


@pytest.mark.contract("GEN-16")
def test_silence_is_filled_with_comments(connect: Connect) -> None:
    connection = connect(EventScript(pause_seconds=0.12), keep_alive_seconds=0.05)
    text = connection.post(stream=True).text
    assert text.startswith(": keep-alive\n\n") and text.count(": keep-alive\n\n") >= 3
    assert named_events(text)[-1][0] == "response.completed"


@pytest.mark.contract("RESP-51", "ERR-3", "ERR-4")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [(ServerOverloaded(capacity=2), 429), (RequestQueueTimeout(waited_ms=5), 503), (GenerationFailed("broke"), 500)],
)
def test_a_refusal_is_an_ordinary_error(connect: Connect, stream: bool, error: Any, status: int) -> None:
    response = connect(EventScript(refusal=error)).post(stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, error.code)


@pytest.mark.contract("RESP-51", "RESP-60")
def test_a_failure_after_the_stream_started(connect: Connect) -> None:
    failure = ServiceUnavailable("the engine has ended")
    connection = connect(EventScript(pieces=(("reasoning", "r"), ("content", "part")), failure=failure))
    events = connection.stream()
    terminal = [kind for kind, _ in events if kind in ("response.completed", "response.incomplete", "response.failed")]
    assert terminal == ["response.failed"] and events[-1][0] == "response.failed"
    failed = events[-1][1]["response"]
    assert (failed["status"], failed["error"]["code"], failed["usage"]) == ("failed", "server_error", None)
    assert failed["error"]["message"].startswith("service_unavailable: ")
    assert [(item["type"], item["status"]) for item in failed["output"]] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
    ]
    assert connection.send("GET", f"/{failed['id']}").status_code == 404


@pytest.mark.contract("RESP-51")
def test_a_failure_between_a_comment_and_the_first_event(connect: Connect) -> None:
    """The status is out by then, so the stream is begun and broken off."""
    script = EventScript(pieces=(), pause_seconds=0.1, failure=RequestQueueTimeout(waited_ms=100))
    events = connect(script, keep_alive_seconds=0.02).stream()
    assert [kind for kind, _ in events] == ["response.created", "response.in_progress", "response.failed"]
    assert [payload["sequence_number"] for _, payload in events] == [0, 1, 2]


def test_a_failure_without_a_stream(connect: Connect) -> None:
    connection = connect(EventScript(failure=ServiceUnavailable("the engine has ended")))
    assert connection.post().status_code == 503
    assert connection.post().json()["error"]["code"] == "service_unavailable"


def test_encrypted_reasoning_is_an_opaque_string(connect: Connect) -> None:
    """Decision 13."""
    connection = connect(ALL)
    include = ["reasoning.encrypted_content"]
    events = connection.stream(include=include)
    reasoning = events[-1][1]["response"]["output"][0]
    assert isinstance(reasoning["encrypted_content"], str) and reasoning["encrypted_content"]
    assert all(
        payload["item"]["encrypted_content"] == reasoning["encrypted_content"]
        for kind, payload in events
        if kind.startswith("response.output_item") and payload["output_index"] == 0
    )
    assert "encrypted_content" not in connection.create()["output"][0]
    connection.create(input=[{"role": "user", "content": "x"}, reasoning, {"role": "user", "content": "y"}])
    assert connection.service.requests[-1].messages[1].reasoning == "Hmm."


@pytest.mark.contract("GEN-14")
def test_every_answer_has_an_id_of_its_own(connect: Connect) -> None:
    connection = connect()
    answers = [
        connection.post(),
        connection.post(stream=True),
        connection.post(model="nope"),
        connection.send("GET", "/resp_missing"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 404]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 4
