"""Answers on the wire, streamed and not, over a scripted service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import (
    ContextLengthExceeded,
    FinishReason,
    GenerationFailed,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.testing.event_streams import named_events
from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]
CALLS = (("get_weather", {"city": "Oslo", "a": [1, {"z": None, "b": 2.5}]}), ("now", {}))
FULL = EventScript(
    pieces=(("reasoning", "Hm"), ("reasoning", "m."), ("content", "OK"), ("content", ".")),
    calls=CALLS,
    cached_tokens=3,
)
USAGE = {
    "input_tokens": 4,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": None,
    "cache_creation": None,
    "output_tokens": 6,
    "output_tokens_details": {"thinking_tokens": 2},
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": None,
    "inference_geo": None,
}


def assembled(events: list[tuple[str, Any]]) -> dict[str, Any]:
    """The message that a client puts together from a stream, by the rules of the format."""
    message: dict[str, Any] = {}
    for name, event in events:
        assert event["type"] == name
        match name:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]) | {"json": ""})
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                kind = delta.pop("type")
                field = {"input_json_delta": "json", "signature_delta": "signature"}.get(kind)
                ((given, text),) = delta.items()
                block[field or given] += text
            case "content_block_stop":
                block = message["content"][event["index"]]
                assert event["index"] == len(message["content"]) - 1
                if block["type"] == "tool_use":
                    block["input"] = json.loads(block["json"])
                del block["json"]
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    return message


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    content = [{key: value for key, value in block.items() if key != "id"} for block in message["content"]]
    blocks = [block | {"signature": "s"} if block["type"] == "thinking" else block for block in content]
    return message | {"id": "m", "content": blocks}


@pytest.mark.contract("GEN-13", "ANTH-12", "ANTH-25", "ANTH-29", "ANTH-42", "ANTH-43", "GEN-28", "CHAT-41")
def test_an_aggregate_answer(connect: Connect) -> None:
    answer = connect(FULL).post(model="anything at all").json()
    assert re.fullmatch("msg_[0-9a-f]{16}", answer["id"])
    thinking, text, first, second = answer.pop("content")
    assert answer == {
        "id": answer["id"],
        "type": "message",
        "role": "assistant",
        "model": "anything at all",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }
    assert thinking == {"type": "thinking", "thinking": "Hmm.", "signature": answer["id"]}
    assert text == {"type": "text", "text": "OK."}
    assert re.fullmatch("toolu_[0-9a-f]{16}", first["id"]) and first["id"] != second["id"]
    assert [(call["name"], call["input"]) for call in (first, second)] == list(CALLS)
    assert list(first["input"]) == ["city", "a"] and list(first["input"]["a"][1]) == ["z", "b"]


@pytest.mark.contract("ANTH-31", "ANTH-44", "ANTH-12", "ANTH-26")
def test_a_stream_in_full(connect: Connect) -> None:
    response = connect(FULL).post(stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = named_events(response.text)
    start = events[0][1]["message"]
    assert start["content"] == [] and start["stop_reason"] is None
    assert start["usage"] == USAGE | {"output_tokens": 0, "output_tokens_details": {"thinking_tokens": 0}}
    steps = [(name, event.get("index"), (event.get("delta") or {}).get("type")) for name, event in events]
    assert steps == [
        ("message_start", None, None),
        ("content_block_start", 0, None),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "signature_delta"),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, None),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_stop", 1, None),
        ("content_block_start", 2, None),
        ("content_block_delta", 2, "input_json_delta"),
        ("content_block_stop", 2, None),
        ("content_block_start", 3, None),
        ("content_block_delta", 3, "input_json_delta"),
        ("content_block_stop", 3, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]
    assert events[10][1]["content_block"]["input"] == {}
    assert events[4][1]["delta"]["signature"] == start["id"]


@pytest.mark.contract("ANTH-26", "ANTH-31")
@pytest.mark.parametrize(
    "script",
    [
        FULL,
        EventScript(),
        EventScript(pieces=()),
        EventScript(pieces=(), calls=CALLS),
        EventScript(pieces=(("reasoning", "only"),), reason="output_limit"),
        EventScript(pieces=(("reasoning", "t"),), calls=CALLS),
        EventScript(pieces=(("content", "one "),), reason="stop_string", stop_string="END"),
    ],
)
def test_a_stream_adds_up_to_the_aggregate(connect: Connect, script: EventScript) -> None:
    connection = connect(script)
    whole = connection.post().json()
    assert without_ids(assembled(named_events(connection.post(stream=True).text))) == without_ids(whole)


@pytest.mark.contract("ANTH-9", "ANTH-10", "ANTH-45", "EXEC-20")
@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [
        ("stop_token", (), ("end_turn", None)),
        ("stop_string", (), ("stop_sequence", "END")),
        ("output_limit", (), ("max_tokens", None)),
        ("context_capacity", (), ("model_context_window_exceeded", None)),
        ("stop_token", CALLS, ("tool_use", None)),
        ("stop_string", CALLS, ("tool_use", None)),
        ("output_limit", CALLS, ("max_tokens", None)),
        ("context_capacity", CALLS, ("model_context_window_exceeded", None)),
    ],
)
def test_stop_reasons(connect: Connect, reason: FinishReason, calls: Any, expected: tuple[str, str | None]) -> None:
    connection = connect(
        EventScript(reason=reason, calls=calls, stop_string="END" if reason == "stop_string" else None)
    )
    answer = connection.post().json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == expected
    delta = dict(named_events(connection.post(stream=True).text))["message_delta"]["delta"]
    assert delta == {"stop_reason": expected[0], "stop_sequence": expected[1]}


@pytest.mark.contract("GEN-15", "ANTH-40", "ANTH-43")
def test_every_answer_has_a_request_id_of_its_own(connect: Connect) -> None:
    connection = connect()
    answers = [
        connection.post(),
        connection.post(stream=True),
        connection.post("/v1/messages/count_tokens"),
        connection.post(max_tokens=0),
        connection.post("/v1/messages/nowhere"),
    ]
    ids = [answer.headers["request-id"] for answer in answers]
    assert all(re.fullmatch("req_[0-9a-f]{16}", name) for name in ids) and len(set(ids)) == len(ids)
    assert not any("x-request-id" in answer.headers for answer in answers)
    assert [answer.status_code for answer in answers] == [200, 200, 200, 400, 404]


@pytest.mark.contract("ANTH-32")
def test_count_tokens(connect: Connect) -> None:
    connection = connect()
    assert connection.post("/v1/messages/count_tokens").json() == {"input_tokens": 7}
    assert connection.service.open_generations == 0


@pytest.mark.contract("GEN-16")
@pytest.mark.parametrize(("compat", "pings"), [(frozenset(), False), (frozenset({"claude-code"}), True)])
def test_silence_is_filled(connect: Connect, compat: frozenset[str], pings: bool) -> None:
    script = EventScript(pieces=FULL.pieces, pause_seconds=0.12)
    text = connect(script, keep_alive_seconds=0.05, compat=compat).post(stream=True).text
    assert text.startswith(": keep-alive\n\n") and text.count(": keep-alive\n\n") >= 4
    events = named_events(text)
    assert (("ping", {"type": "ping"}) in events) is pings
    assert assembled([event for event in events if event[0] != "ping"])["content"][1]["text"] == "OK."


ERRORS = [
    (ServerOverloaded(capacity=2), 529, "overloaded_error"),
    (RequestQueueTimeout(waited_ms=5), 504, "timeout_error"),
    (ServiceUnavailable("gone"), 503, "api_error"),
    (GenerationFailed("broke"), 500, "api_error"),
    (ContextLengthExceeded(prompt_tokens=9, max_context=8), 400, "invalid_request_error"),
]


@pytest.mark.contract("ANTH-30", "ANTH-41", "ERR-3", "ERR-4")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("error", "status", "kind"), ERRORS)
def test_a_refusal_is_an_ordinary_error_also_for_a_stream(
    connect: Connect, stream: bool, error: Any, status: int, kind: str
) -> None:
    response = connect(EventScript(refusal=error)).post(stream=stream)
    body = response.json()
    assert (response.status_code, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert body["error"]["code"] == error.code
    assert body["request_id"] == response.headers["request-id"]


@pytest.mark.contract("MEDIA-2")
def test_agents_know_a_full_context_by_its_words(connect: Connect) -> None:
    script = EventScript(refusal=ContextLengthExceeded(prompt_tokens=9000, max_context=8192))
    error = connect(script).post().json()["error"]
    assert error["message"] == "prompt is too long: 9000 tokens > 8192 maximum"
    assert error["code"] == "context_length_exceeded"


@pytest.mark.contract("ANTH-44")
def test_a_failure_after_the_first_event_is_an_error_event(connect: Connect) -> None:
    script = EventScript(pieces=(("content", "x"),), failure=ServiceUnavailable("the engine has ended"))
    response = connect(script).post(stream=True)
    assert response.status_code == 200
    name, last = named_events(response.text)[-1]
    assert (name, last["type"], last["error"]["code"]) == ("error", "error", "service_unavailable")
    assert last["request_id"] == response.headers["request-id"]
    assert connect(script).post().status_code == 503


@pytest.mark.contract("AUTH-1", "ANTH-41")
def test_the_key(connect: Connect) -> None:
    connection = connect(api_key="k1")
    refused = connection.post()
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    for headers in ({"x-api-key": "k1"}, {"authorization": "Bearer k1"}):
        assert connection.post(headers=headers).status_code == 200


def check_error(response: Any, status: int, kind: str, code: str) -> None:
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (status, kind, code)
    assert response.json()["request_id"] == response.headers["request-id"]


@pytest.mark.contract("ANTH-41", "MEDIA-6")
def test_what_is_wrong_with_the_request_itself(connect: Connect) -> None:
    connection = connect(max_request_bytes=200)
    check_error(connection.post(system="x" * 300), 413, "request_too_large", "request_too_large")
    check_error(connection.send("GET"), 405, "invalid_request_error", "method_not_allowed")
    check_error(connection.send("POST", "/v1/messages/batches"), 404, "not_found_error", "not_found")


@pytest.mark.contract("ANTH-30", "ERR-2")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"model": NaN}', b'{"model": "\\ud800"}', b"[" * 100_000]
)
def test_bodies_that_are_no_objects(connect: Connect, path: str, body: bytes) -> None:
    check_error(connect().send("POST", path, content=body), 400, "invalid_request_error", "invalid_json")


@pytest.mark.contract("ANTH-28")
def test_what_is_advisory_never_blocks(connect: Connect) -> None:
    answer = connect().post(
        "/v1/messages?beta=true",
        headers={"anthropic-version": "1999-01-01", "anthropic-beta": "a,b,c"},
        context_management={"edits": [{"type": "x"}]},
        metadata={"user_id": "u"},
        service_tier="auto",
        inference_geo=3,
        unknown_hint=1,
    )
    assert answer.status_code == 200
