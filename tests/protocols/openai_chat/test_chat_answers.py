"""Answers on the wire, streamed and not, over a scripted service."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import (
    FinishReason,
    GenerationFailed,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
    Speculation,
)
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.scripted_service import EventScript

PATH = "/v1/chat/completions"
Connect = Callable[..., Any]
THOUGHT = EventScript(pieces=(("reasoning", "Hm"), ("reasoning", "m."), ("content", "OK"), ("content", ".")))


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "scripted-model", "messages": [{"role": "user", "content": "Say OK."}]} | fields


@pytest.mark.contract("GEN-8", "CHAT-42", "CHAT-43", "CHAT-44", "IMPL-1", "IMPL-2")
def test_an_aggregate_answer(connect: Connect) -> None:
    client, _ = connect(THOUGHT)
    answer = client.post(PATH, json=body()).json()
    assert answer["id"].startswith("chatcmpl-") and len(answer["id"]) == len("chatcmpl-") + 16
    assert (answer["object"], answer["model"]) == ("chat.completion", "scripted-model")
    (choice,) = answer["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "OK.", "refusal": None, "reasoning_content": "Hmm."},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert answer["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 4,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


@pytest.mark.contract("CHAT-44", "IMPL-2")
def test_usage_says_what_was_cached_streamed_or_not(connect: Connect) -> None:
    client, _ = connect(dataclasses.replace(THOUGHT, prompt_tokens=10, cached_tokens=6))
    whole = client.post(PATH, json=body()).json()["usage"]
    streamed = client.post(PATH, json=body(stream=True, stream_options={"include_usage": True}))
    assert data_payloads(streamed.text)[-2]["usage"] == whole
    assert whole == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


@pytest.mark.contract("IMPL-4")
def test_reasoning_is_absent_when_there_is_none(connect: Connect) -> None:
    client, _ = connect()
    assert "reasoning_content" not in client.post(PATH, json=body()).json()["choices"][0]["message"]


@pytest.mark.contract("CHAT-47", "EXEC-20")
@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop_token", "stop"), ("stop_string", "stop"), ("output_limit", "length"), ("context_capacity", "length")],
)
def test_finish_reasons(connect: Connect, reason: FinishReason, expected: str) -> None:
    client, _ = connect(EventScript(reason=reason))
    assert client.post(PATH, json=body()).json()["choices"][0]["finish_reason"] == expected
    finish = data_payloads(client.post(PATH, json=body(stream=True)).text)[-2]
    assert finish["choices"][0]["finish_reason"] == expected


@pytest.mark.contract("OBS-1", "OBS-2", "OBS-3", "OBS-5")
def test_timings(connect: Connect) -> None:
    five = (("content", "x"),) * 5
    client, _ = connect(
        EventScript(pieces=five, prompt_tokens=10, cached_tokens=6, prompt_seconds=0.5, generation_seconds=2)
    )
    assert client.post(PATH, json=body()).json()["timings"] == {
        "cache_n": 6,
        "prompt_n": 4,
        "prompt_ms": 500.0,
        "prompt_per_token_ms": 125.0,
        "prompt_per_second": 8.0,
        "predicted_n": 5,
        "predicted_ms": 2000.0,
        "predicted_per_token_ms": 500.0,
        "predicted_per_second": 2.0,
    }


def speculation(drafted: int, accepted: int) -> Speculation:
    return Speculation(
        rounds=3,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        fallback_steps=3 if not drafted else 0,
        accepted_per_position=(accepted,),
    )


@pytest.mark.contract("OBS-7", "IMPL-6")
@pytest.mark.parametrize(
    ("told", "expected"),
    [(None, None), (speculation(0, 0), None), (speculation(9, 0), (9, 0)), (speculation(9, 5), (9, 5))],
)
def test_drafts_are_counted_at_the_end_where_there_were_any(
    connect: Connect, told: Speculation | None, expected: tuple[int, int] | None
) -> None:
    client, _ = connect(EventScript(speculation=told))
    whole = client.post(PATH, json=body()).json()["timings"]
    *chunks, _ = data_payloads(client.post(PATH, json=body(stream=True, timings_per_token=True)).text)
    live, last = [chunk["timings"] for chunk in chunks[1:-1]], chunks[-1]["timings"]
    for end in (whole, last):
        if expected is None:
            assert not {"draft_n", "draft_n_accepted"} & set(end)
        else:
            assert (end["draft_n"], end["draft_n_accepted"]) == expected
    assert live and not any({"draft_n", "draft_n_accepted"} & set(timings) for timings in live)


@pytest.mark.contract("OBS-6", "CHAT-8")
@pytest.mark.parametrize("pieces", [(), (("content", "x"),)])
def test_rates_are_finite_where_there_is_nothing_to_divide_by(connect: Connect, pieces: Any) -> None:
    client, _ = connect(
        EventScript(pieces=pieces, prompt_tokens=4, cached_tokens=4, prompt_seconds=0, generation_seconds=0)
    )
    timings = client.post(PATH, json=body()).json()["timings"]
    assert all(math.isfinite(value) for value in timings.values())
    assert timings["predicted_per_second"] == timings["prompt_per_second"] == 0


@pytest.mark.contract("CHAT-13", "CHAT-45", "CHAT-46", "IMPL-3", "OBS-1")
def test_a_stream_with_usage(connect: Connect) -> None:
    client, _ = connect(THOUGHT)
    response = client.post(PATH, json=body(stream=True, stream_options={"include_usage": True}))
    assert response.headers["content-type"].startswith("text/event-stream")
    *chunks, done = data_payloads(response.text)
    assert done == "[DONE]"
    first, *deltas, finish, usage = chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["delta"] for chunk in deltas] == [
        {"reasoning_content": "Hm"},
        {"reasoning_content": "m."},
        {"content": "OK"},
        {"content": "."},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in [first, *deltas]] == [None] * 5
    assert (finish["choices"][0]["delta"], finish["choices"][0]["finish_reason"]) == ({}, "stop")
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 4
    assert [("timings" in chunk) for chunk in chunks] == [False] * 6 + [True]
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.contract("CHAT-13", "CHAT-45", "OBS-1")
def test_a_stream_without_usage(connect: Connect) -> None:
    client, _ = connect(THOUGHT)
    *chunks, done = data_payloads(client.post(PATH, json=body(stream=True)).text)
    assert done == "[DONE]"
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)
    assert "timings" in chunks[-1] and chunks[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.contract("CHAT-14", "OBS-9", "OBS-10", "OBS-11", "OBS-12", "OBS-13")
@pytest.mark.parametrize(("cached", "processed"), [(0, [0, 3, 7]), (3, [3, 5, 7]), (7, [7])])
@pytest.mark.parametrize("pieces", [(), (("content", "x"),)])
def test_prompt_progress(connect: Connect, cached: int, processed: list[int], pieces: Any) -> None:
    client, _ = connect(EventScript(pieces=pieces, cached_tokens=cached))
    chunks = data_payloads(client.post(PATH, json=body(stream=True, return_progress=True)).text)[:-1]
    progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    assert [event["processed"] for event in progress] == processed
    assert all((event["total"], event["cache"]) == (7, cached) and event["time_ms"] >= 0 for event in progress)
    last = max(index for index, chunk in enumerate(chunks) if "prompt_progress" in chunk)
    assert all(
        chunk["choices"][0]["delta"] in ({}, {"role": "assistant", "content": ""}) for chunk in chunks[: last + 1]
    )
    times = [event["time_ms"] for event in progress]
    assert times[0] == 0 and times == sorted(times)


@pytest.mark.contract("CHAT-14", "OBS-8")
def test_timings_on_every_chunk_with_text(connect: Connect) -> None:
    client, _ = connect(THOUGHT)
    *chunks, _ = data_payloads(client.post(PATH, json=body(stream=True, timings_per_token=True)).text)
    assert ["timings" in chunk for chunk in chunks] == [False, *[True] * 4, True]
    live = [chunk["timings"] for chunk in chunks[1:-1]]
    assert [timings["predicted_n"] for timings in live] == [1, 2, 3, 4]
    assert [timings["predicted_ms"] for timings in live] == sorted(timings["predicted_ms"] for timings in live)
    assert all((timings["prompt_n"], timings["prompt_ms"]) == (7, 500) for timings in live)
    assert chunks[-1]["timings"] == live[-1]
    assert all(math.isfinite(value) for timings in live for value in timings.values())
    whole = client.post(PATH, json=body(timings_per_token=True)).json()
    assert whole["timings"]["predicted_n"] == 4


@pytest.mark.contract("CHAT-14", "OBS-8", "OBS-9")
@pytest.mark.parametrize("fields", [{}, {"timings_per_token": False, "return_progress": False}])
def test_neither_timings_nor_progress_come_unasked(connect: Connect, fields: dict[str, bool]) -> None:
    client, _ = connect(THOUGHT)
    *chunks, _ = data_payloads(client.post(PATH, json=body(stream=True) | fields).text)
    assert ["timings" in chunk for chunk in chunks] == [False, *[False] * 4, True]
    assert not any("prompt_progress" in chunk for chunk in chunks)


@pytest.mark.contract("GEN-16")
def test_silence_is_filled_with_comments_and_nothing_else_changes(connect: Connect) -> None:
    client, _ = connect(EventScript(pieces=THOUGHT.pieces, pause_seconds=0.12), keep_alive_seconds=0.05)
    text = client.post(PATH, json=body(stream=True)).text
    assert text.startswith(": keep-alive\n\n") and text.count(": keep-alive\n\n") >= 6
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in data_payloads(text)[:-1]) == "OK."


@pytest.mark.contract("ERR-1", "ERR-3", "ERR-4")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ServerOverloaded(capacity=2), 429, "rate_limit_error"),
        (RequestQueueTimeout(waited_ms=5), 503, "server_error"),
        (ServiceUnavailable("gone"), 503, "server_error"),
        (GenerationFailed("broke"), 500, "server_error"),
    ],
)
def test_a_refusal_is_an_ordinary_error_also_for_a_stream(
    connect: Connect, stream: bool, error: Any, status: int, kind: str
) -> None:
    client, _ = connect(EventScript(refusal=error))
    response = client.post(PATH, json=body(stream=stream))
    assert response.status_code == status
    assert response.json() == {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def test_a_failure_after_the_first_event_ends_the_stream_with_an_error(connect: Connect) -> None:
    client, _ = connect(EventScript(pieces=(("content", "x"),), failure=ServiceUnavailable("the engine has ended")))
    response = client.post(PATH, json=body(stream=True))
    assert response.status_code == 200
    *_, last = data_payloads(response.text)
    assert last["error"]["code"] == "service_unavailable"


def test_a_failure_without_a_stream_is_an_ordinary_error(connect: Connect) -> None:
    client, _ = connect(EventScript(failure=ServiceUnavailable("the engine has ended")))
    assert client.post(PATH, json=body()).status_code == 503
