"""Failure cases of similar servers (tests/cases/anthropic.jsonl), each against a live server of scripted answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build, ninfer_protocol_lower

from ninfer_core.api import Frontend, ThinkingDefaults
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.event_streams import named_events
from ninfer_core.testing.scripted_server import scripted_server
from ninfer_core.testing.tiny import tiny_header

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[2] / "cases" / "anthropic.jsonl").read_text().splitlines())
}
PLAIN = {"content": "OK."}
KEEP_ALIVE_SECONDS = 0.1
"""Stands for the 5 seconds of a real server where a case is about silence."""

REUSE = {"cache_read_input_tokens_gt", "cache_read_input_tokens_ge"}
"""Owed by the prefix cache: until it is built every prompt is read from its beginning."""


@contextmanager
def serving(*answers: dict[str, Any], **options: Any) -> Iterator[httpx.Client]:
    with (
        scripted_server(
            answers or [PLAIN], lambda context: [ninfer_protocol_build(context=context)], **options
        ) as server,
        httpx.Client(base_url=server.base_url, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving() as opened:
        yield opened


@pytest.fixture(scope="module")
def frontend() -> Frontend:
    registry = PluginRegistry.discover()
    family = registry.load(registry.select("family", "qwen-hybrid"))
    built: Frontend = family.hook.ninfer_family_frontend(header=tiny_header())
    return built


@pytest.fixture(scope="module")
def prompt_of(frontend: Frontend) -> Callable[[dict[str, Any]], str]:
    def render(request: dict[str, Any]) -> str:
        lowered = ninfer_protocol_lower(body=json.dumps(request["body"]).encode())
        return frontend.prepare(lowered, ThinkingDefaults()).text

    return render


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    return client.request(request["method"], request["path"], headers=request["headers"], json=request["body"])


def check_error(response: httpx.Response, kind: str) -> None:
    body = response.json()
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert body["error"]["message"]
    assert body["request_id"] == response.headers["request-id"]


@pytest.mark.contract("ANTH-19", "ANTH-30", "ANTH-40")
@pytest.mark.parametrize("name", ["ai-02", "ai-03", "ae-01"])
def test_refusals_have_their_form(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    response = send(client, case["request"])
    assert response.status_code == case["check"]["status"]
    check_error(response, case["check"]["error_type"])


@pytest.mark.contract("ANTH-1", "ANTH-20", "ANTH-28", "ANTH-11")
@pytest.mark.parametrize("name", ["ai-06", "ai-14", "ap-06"])
def test_what_has_to_work_works(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    response = send(client, case["request"])
    assert response.status_code == case["check"]["status"]
    assert response.json()["content"] == [{"type": "text", "text": "OK."}]


@pytest.mark.contract("ANTH-7", "ANTH-17", "ANTH-27", "ANTH-21", "ANTH-29", "ANTH-32", "IMPL-12")
@pytest.mark.parametrize("name", ["ai-18", "ap-07", "ap-08", "ap-09", "ac-02", "aq-01", "aq-04"])
def test_statuses_of_several_requests(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    check, answers = dict(case["check"]), [send(client, step) for step in case["request"]["steps"]]
    # A request-level marker needs a free slot of the four (contract ANTH-22, IMPL-15).
    expected = [400 if status == "see expect" else status for status in check.pop("statuses")]
    assert [answer.status_code for answer in answers] == expected
    for answer in answers:
        if answer.status_code == 400:
            check_error(answer, "invalid_request_error")
    if check.pop("message_names_capability", False):
        words = [answer.json()["error"]["message"] for answer in answers]
        assert "document" in words[0] and "tool" in words[1]
    if name == "ap-09":
        assert answers[0].json()["model"] == check.pop("step1")["model"]
    assert check.pop("step2", REUSE).keys() <= REUSE if "step2" in check else True
    assert check == {}


@pytest.mark.contract("ANTH-47", "GEN-22")
def test_an_image_without_vision(client: httpx.Client) -> None:
    request = CASES["ai-07"]["request"]
    counted = request | {"path": "/v1/messages/count_tokens"}
    for response in (send(client, request), send(client, counted)):
        assert (response.status_code, response.json()["error"]["code"]) == (400, "vision_disabled")


@pytest.mark.contract("ANTH-20")
@pytest.mark.parametrize("turns", [1, 3])
def test_results_whose_calls_are_lost_are_a_turn_of_the_prompt(
    client: httpx.Client, prompt_of: Any, turns: int
) -> None:
    request = CASES["ai-06"]["request"]
    request = request | {"body": request["body"] | {"messages": request["body"]["messages"][:turns]}}
    assert send(client, request).status_code == 200
    assert "<|im_start|>user\n<tool_response>\nold\n</tool_response><|im_end|>" in prompt_of(request)


@pytest.mark.contract("ANTH-18")
def test_a_failed_result_is_marked_and_a_missing_one_is_empty(client: httpx.Client, prompt_of: Any) -> None:
    request = CASES["ai-08"]["request"]
    assert send(client, request).status_code == CASES["ai-08"]["check"]["status"]
    prompt = prompt_of(request)
    assert "Tool error:\nboom" in prompt
    del request["body"]["messages"][2]["content"][0]["is_error"]
    assert "Tool error" not in prompt_of(request) and "boom" in prompt_of(request)


@pytest.mark.contract("ANTH-5")
def test_attribution_changes_no_prompt(client: httpx.Client, prompt_of: Any) -> None:
    first, second = CASES["ai-10"]["request"]["steps"]
    answers = [send(client, step) for step in (first, second)]
    assert [answer.status_code for answer in answers] == CASES["ai-10"]["check"]["statuses"]
    assert prompt_of(first) == prompt_of(second) and "billing" not in prompt_of(first)
    assert answers[0].json()["usage"] == answers[1].json()["usage"]
    assert CASES["ai-10"]["check"]["step2"].keys() <= REUSE


@pytest.mark.contract("ANTH-3")
def test_an_empty_beginning_is_a_beginning(client: httpx.Client, prompt_of: Any) -> None:
    request = CASES["ai-16"]["request"]
    assert send(client, request).status_code == 200
    opened = prompt_of(request)
    request["body"]["messages"][-1]["content"] = "The ans"
    assert prompt_of(request) == opened + "The ans"


@pytest.mark.contract("ANTH-2", "ANTH-3", "EXEC-17")
def test_a_late_system_message_is_a_suffix(prompt_of: Any) -> None:
    first, second = CASES["aq-04"]["request"]["steps"]
    shared = prompt_of(first).rsplit("<|im_start|>assistant", 1)[0]
    assert "tokens left: 1000" in shared and prompt_of(second).startswith(shared)
    assert prompt_of(second).index("tokens left: 900") > prompt_of(second).index("tokens left: 1000")


@pytest.mark.contract("ANTH-15", "TMPL-3")
def test_effort(client: httpx.Client, frontend: Frontend) -> None:
    steps = CASES["ap-05"]["request"]["steps"]
    exposed = frontend.capabilities.efforts
    assert "low" in exposed and "high" not in exposed
    expected = [200 if step["body"]["output_config"]["effort"] in exposed else 400 for step in steps]
    assert [send(client, step).status_code for step in steps] == expected == CASES["ap-05"]["check"]["statuses"]
    with serving(context={"compat": frozenset({"claude-code"})}) as compatible:
        assert [send(compatible, step).status_code for step in steps] == [200] * len(steps)


@pytest.mark.contract("ANTH-9")
@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_sequence(stream: bool) -> None:
    case = CASES["as-04"]
    request, check = case["request"]["base"], case["check"]
    request["body"]["stream"] = stream
    with serving(case["request"]["fake_model"]) as client:
        response = send(client, request)
    if stream:
        events = named_events(response.text)
        ended = dict(events)["message_delta"]["delta"]
        text = "".join(event["delta"].get("text", "") for name, event in events if name == "content_block_delta")
    else:
        ended, text = response.json(), response.json()["content"][0]["text"]
    assert (ended["stop_reason"], ended["stop_sequence"]) == (check["stop_reason"], check["stop_sequence"])
    assert text == check["text"]


@pytest.mark.contract("GEN-16", "ANTH-26")
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("as-06", {"content": "ok", "prompt_delay_ms": 600}),
        ("as-07", {"tool_calls": [{"name": "get_weather", "arguments": {"city": "x" * 200}}], "delay_ms": 10}),
    ],
)
@pytest.mark.parametrize("compat", [frozenset(), frozenset({"claude-code"})])
def test_silence_is_filled(name: str, answer: dict[str, Any], compat: frozenset[str]) -> None:
    request = CASES[name]["request"]["base"]
    with serving(answer, keep_alive_seconds=KEEP_ALIVE_SECONDS, context={"compat": compat}) as client:
        begun, arrivals = time.monotonic(), []
        with client.stream(request["method"], request["path"], json=request["body"]) as response:
            text = ""
            for piece in response.iter_text():
                arrivals.append(time.monotonic() - begun)
                text += piece
    assert arrivals[0] < 0.5
    assert text.count(": keep-alive\n\n") >= 3
    events = named_events(text)
    assert (("ping", {"type": "ping"}) in events) is bool(compat)
    assert events[-1][0] == "message_stop"


@pytest.mark.contract("ANTH-30", "ANTH-41", "EXEC-5")
def test_overload_and_a_pending_deadline() -> None:
    case = CASES["ae-02"]
    options = {"kv_capacity": 4096, "max_concurrency": 1, "max_pending_requests": 1, "pending_timeout_ms": 300}
    slow = {"content": "word " * 40, "delay_ms": 20}
    with serving(slow, options=options) as client, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda request: send(client, request), case["request"]["parallel"]))
    assert {answer.status_code for answer in answers} == {200, *case["check"]["statuses_contain"]}
    for answer in answers:
        if answer.status_code != 200:
            check_error(answer, case["check"]["error_types"][str(answer.status_code)])


def test_no_case_is_left_out() -> None:
    source = Path(__file__).read_text()
    assert [name for name in CASES if f'"{name}"' not in source] == []
