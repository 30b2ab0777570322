"""Failures of similar servers (tests/cases/chat.jsonl, http.jsonl), each against a live server of scripted answers."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build as build_anthropic
from ninfer_protocols.openai_chat import ninfer_protocol_build as build_chat
from ninfer_protocols.openai_chat import ninfer_protocol_lower
from ninfer_protocols.openai_responses import ninfer_protocol_build as build_responses

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.testing.scripted_server import scripted_server

FOLDER = Path(__file__).parents[1] / "cases"
CASES = {
    case["id"]: case
    for name in ("chat", "http")
    for case in map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines())
}
MODEL = "qwen3.8-27b"


def build(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [protocol(context=context) for protocol in (build_chat, build_responses, build_anthropic)]


@contextmanager
def serving(**options: Any) -> Iterator[httpx.Client]:
    with (
        scripted_server([{"content": "OK."}], build, model_id=MODEL, **options) as server,
        httpx.Client(base_url=server.base_url, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving() as opened:
        yield opened


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    raw = request.get("raw_body_b64")
    content = json.dumps(request.get("body")) if raw is None else base64.b64decode(raw)
    body = {} if request["method"] in ("GET", "OPTIONS") else {"content": content}
    return client.request(request["method"], request["path"], headers=request.get("headers"), **body)


def check_error(answer: httpx.Response, check: dict[str, Any]) -> None:
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    for field in ("param", "code"):
        assert error[field] == check.get(field, error[field])


SINGLE = [
    name for name, case in CASES.items() if "method" in case["request"] and "server" not in case and name != "cp-35"
]
LEFT = {"usage.completion_tokens", "finish_reason", "prompt_contains", "never", "error_shape", "param", "code"}


@pytest.mark.contract("CHAT-1", "CHAT-9", "CHAT-10", "CHAT-21", "CHAT-24", "CHAT-31", "CHAT-32", "CHAT-33", "CHAT-35")
@pytest.mark.parametrize("name", SINGLE)
def test_one_request(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    request, check = case["request"], dict(case["check"])
    answer = send(client, request)
    expected = check.pop("status", None)
    assert answer.status_code in check.pop("status_in", [expected]), answer.text
    if answer.status_code == 400:
        check_error(answer, check)
        assert check["error_shape" if expected == 400 else "never"]
    else:
        answered = answer.json()
        if "usage.completion_tokens" in check:
            assert answered["usage"]["completion_tokens"] == check["usage.completion_tokens"]
            assert send(client, request).json()["usage"] == answered["usage"]
        assert answered["choices"][0]["finish_reason"] in (check.get("finish_reason", "stop"), "length")
    if "prompt_contains" in check:
        lowered = ninfer_protocol_lower(body=base64.b64decode(request["raw_body_b64"]))
        assert check["prompt_contains"] in lowered.messages[0].text
    assert set(check) <= LEFT


def test_cp_14_an_integral_float_is_no_integer_anywhere(client: httpx.Client) -> None:
    user = [{"role": "user", "content": "x"}]
    for path, body in (
        ("/v1/chat/completions", {"messages": user, "max_tokens": 16.0}),
        ("/v1/responses", {"model": MODEL, "input": "x", "max_output_tokens": 16.0}),
        ("/v1/messages", {"model": MODEL, "messages": user, "max_tokens": 16.0}),
    ):
        assert client.post(path, json=body).status_code == 400


def test_cp_35_an_image_of_a_tool_needs_vision(client: httpx.Client) -> None:
    answer = send(client, CASES["cp-35"]["request"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "vision_disabled")


@pytest.mark.contract("EXEC-20", "CHAT-8")
def test_cx_02_output_is_clipped_to_the_context(client: httpx.Client) -> None:
    case = CASES["cx-02"]
    body = case["request"]["base"]["body"]
    body["messages"][0]["content"] = "a " * 1900
    answer = send(client, case["request"]["base"])
    assert answer.status_code == case["check"]["status"]
    assert answer.json()["usage"]["prompt_tokens"] > 1900
    assert answer.json()["choices"][0]["finish_reason"] in case["check"]["finish_reason_in"]


@pytest.mark.contract("AUTH-1", "AUTH-2")
@pytest.mark.parametrize("name", ["au-01", "au-02"])
def test_keys(name: str) -> None:
    case = CASES[name]
    assert case["request"]["server"] == ["--api-key", "k1"]
    with serving(api_key="k1") as client:
        assert [send(client, step).status_code for step in case["request"]["steps"]] == case["check"]["statuses"]


@pytest.mark.contract("AUTH-2", "AUTH-3")
def test_cr_01_preflights() -> None:
    case = CASES["cr-01"]
    with serving(api_key="k1", cors=True) as client:
        for step in case["request"]["steps"]:
            answer = send(client, step)
            assert answer.status_code in case["check"]["statuses_in"]
            assert answer.headers["access-control-allow-origin"] == "*"
            allowed = {each.strip().lower() for each in answer.headers["access-control-allow-headers"].split(",")}
            assert set(step["headers"]["Access-Control-Request-Headers"].split(",")) <= allowed


@pytest.mark.contract("AUTH-3", "OPT-40")
def test_cr_03_no_browser_is_let_in_by_default(client: httpx.Client) -> None:
    case = CASES["cr-03"]
    for step in case["request"]["steps"]:
        assert case["check"]["no_header"] not in send(client, step).headers


@pytest.mark.parametrize("name", ["js-08", "js-09"])
def test_bodies_of_other_shapes(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    answers = [send(client, step) for step in case["request"]["steps"]]
    # Of the two roles in one message of js-08 the last is the system's, and so nobody asks anything.
    assert [answer.status_code for answer in answers] == ([200, 400] if name == "js-08" else [400] * len(answers))
    for answer in answers:
        if answer.status_code == 400:
            check_error(answer, {})
    first = case["request"]["steps"][0]
    if name == "js-08":
        assert ninfer_protocol_lower(body=base64.b64decode(first["raw_body_b64"])).max_output_tokens == 5  # the last


def test_js_06_depth(client: httpx.Client) -> None:
    case = CASES["js-06"]
    user = f'"model": "{MODEL}", "messages": [{{"role": "user", "content": "x"}}]'
    forms = (
        f'{{{user}, "ignored": DEEP}}',
        f'{{{user}, "tools": [DEEP]}}',
        f'{{"model": "{MODEL}", "input": [DEEP]}}',
        f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": [{{"type": "tool_use", "input": DEEP}}]}}]}}',
        "DEEP",
    )
    deep = ("[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000)
    bodies = [form.replace("DEEP", nested) for form in forms for nested in deep]
    for path in case["request"]["paths"]:
        for body in bodies:
            begin = time.monotonic()
            answer = client.post(path, content=body)
            assert answer.status_code == case["check"]["status"]
            assert time.monotonic() - begin < case["check"]["max_seconds"]
    assert client.get("/health").status_code == 200


@pytest.mark.contract("TOOL-7", "CHAT-40")
def test_js_12_schemas_are_shown_and_not_resolved(client: httpx.Client) -> None:
    case = CASES["js-12"]
    base = case["request"]["base"]
    body = json.loads(base64.b64decode(base["raw_body_b64"])) | {"tools": case["request"]["tools"]}
    answer = client.post(base["path"], json=body)
    assert answer.status_code == case["check"]["status"], answer.text


def test_no_case_is_left_out() -> None:
    source = Path(__file__).read_text()
    named = [name for name in CASES if f'"{name}"' in source or f"test_{name.replace('-', '_')}_" in source]
    assert sorted({*named, *SINGLE}) == sorted(CASES)
