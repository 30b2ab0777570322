"""Failure cases of similar servers (tests/cases/responses.jsonl), each against a live server of scripted answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx
import pytest
from ninfer_protocols.openai_responses import ninfer_protocol_build, ninfer_protocol_lower

from ninfer_core.api import Frontend, ThinkingDefaults
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.event_streams import named_events
from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server
from ninfer_core.testing.tiny import tiny_header

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[2] / "cases" / "responses.jsonl").read_text().splitlines())
}
PLAIN = {"content": "OK.", "chunk_characters": 64}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


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
def prompt_of() -> Callable[[dict[str, Any]], str]:
    registry = PluginRegistry.discover()
    family = registry.load(registry.select("family", "qwen-hybrid"))
    frontend: Frontend = family.hook.ninfer_family_frontend(header=tiny_header())

    def render(body: dict[str, Any]) -> str:
        return frontend.prepare(ninfer_protocol_lower(body=json.dumps(body).encode()), ThinkingDefaults()).text

    return render


def script(fake: dict[str, Any]) -> dict[str, Any]:
    """A case's fake model as a scripted answer, in tokens large enough for the limits that cases set. A namespaced
    function goes by its one internal name."""
    calls = [{"name": name.replace("/", "__"), "arguments": arguments} for name, arguments in fake.get("calls", ())]
    answer = {name: fake[name] for name in ("reasoning", "content") if name in fake}
    size = 2 if "fail_after_tokens" in fake else 400
    fail = "fail_after_tokens" in fake
    return answer | {"tool_calls": calls, "chunk_characters": size, "finish": fake.get("finish", "stop"), "fail": fail}


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    body = request.get("body")
    if body is not None and body.get("model") == "qwen3.8-27b":
        body = body | {"model": MODEL_ID}
    return client.request(request["method"], request["path"], json=body)


def filled(request: Any, saved: dict[str, str]) -> Any:
    """`request` with what earlier answers are called by."""
    text = json.dumps(request)
    for name, value in saved.items():
        text = text.replace(name, value)
    return json.loads(text)


def check_error(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and error["code"]
    return error


@pytest.mark.contract("RESP-57", "RESP-58", "RESP-61")
def test_required_indexes() -> None:
    case = CASES["rs-02"]
    with serving(script(case["request"]["fake_model"])) as scripted:
        events = named_events(send(scripted, case["request"]["base"]).text)
    kinds = {kind for kind, _ in events}
    for pattern, fields in case["check"]["sse"]["required_fields"].items():
        assert any(fnmatch(kind, pattern) for kind in kinds)
        for kind, payload in events:
            assert not fnmatch(kind, pattern) or set(fields) <= set(payload), kind


@pytest.mark.contract("RESP-50", "RESP-52", "RESP-53", "RESP-60")
def test_reasoning_only_at_the_limit() -> None:
    case = CASES["rs-04"]
    with serving(script(case["request"]["fake_model"])) as scripted:
        kind, payload = named_events(send(scripted, case["request"]["base"]).text)[-1]
    check, answer = case["check"], payload["response"]
    assert (kind, answer["status"]) == (check["sse"]["terminal"], check["status"])
    assert answer["incomplete_details"] == {"reason": check["incomplete_reason"]}
    assert [item["type"] for item in answer["output"]] == check["output_types"]
    assert answer["completed_at"] is None


@pytest.mark.contract("RESP-51", "RESP-60")
def test_the_engine_fails_in_the_middle() -> None:
    case = CASES["rs-06"]
    with serving(script(case["request"]["fake_model"])) as scripted:
        events = named_events(send(scripted, case["request"]["base"]).text)
    assert [kind for kind, _ in events if kind in TERMINAL] == [case["check"]["sse"]["terminal"]]
    assert events[-1][1]["response"]["error"]["message"]
    assert "".join(payload["delta"] for kind, payload in events if kind == "response.output_text.delta") == "part"


@pytest.mark.contract("GEN-14")
def test_every_answer_has_an_id_of_its_own(client: httpx.Client) -> None:
    case = CASES["rs-08"]
    answers = [send(client, step) for step in case["request"]["steps"]]
    assert len({answer.headers[case["check"]["unique_header"]] for answer in answers}) == len(answers)


@pytest.mark.contract("RESP-43", "RESP-44")
def test_namespaces() -> None:
    case = CASES["co-01"]
    with serving(script(case["request"]["fake_model"])) as scripted:
        base = case["request"]["base"]
        whole = send(scripted, base).json()
        streamed = named_events(send(scripted, base | {"body": base["body"] | {"stream": True}}).text)[-1][1][
            "response"
        ]
        for answer in (whole, streamed):
            calls = [item for item in answer["output"] if item["type"] == "function_call"]
            assert [{"namespace": call["namespace"], "name": call["name"]} for call in calls] == case["check"]["calls"]
        results = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}
            for call in whole["output"]
            if call["type"] == "function_call"
        ]
        body = base["body"] | {"input": results, "previous_response_id": whole["id"]}
        assert send(scripted, base | {"body": body}).status_code == 200


@pytest.mark.contract("RESP-2", "RESP-22", "RESP-31", "RESP-40")
@pytest.mark.parametrize("name", ["co-08", "co-12", "co-09", "ri-07", "rp-01", "ri-06"])
def test_refusals(client: httpx.Client, name: str) -> None:
    case = CASES[name]
    requests = case["request"].get("steps", [case["request"]])
    answers = [send(client, request) for request in requests]
    check = case["check"]
    assert [answer.status_code for answer in answers] == check.get("statuses", [check.get("status")])
    codes = [check_error(answer)["code"] for answer in answers]
    assert codes == check.get("codes", [check["code"]] if "code" in check else codes)


@pytest.mark.contract("RESP-40")
def test_unknown_items_are_named(client: httpx.Client) -> None:
    for step in CASES["co-09"]["request"]["steps"]:
        assert check_error(send(client, step))["param"] == "input[1].type"
    for step in CASES["ri-07"]["request"]["steps"]:
        assert check_error(send(client, step))["param"] == "input[1].arguments"
    for step in CASES["rp-01"]["request"]["steps"]:
        assert check_error(send(client, step))["param"] == "metadata"


@pytest.mark.contract("IMPL-17")
def test_a_summary_of_reasoning(client: httpx.Client) -> None:
    """The contract refuses it; `--compat codex` takes it as a wish."""
    case = CASES["co-04"]
    assert send(client, case["request"]).status_code in case["check"]["status_in"]
    assert check_error(send(client, case["request"]))["code"] == "reasoning_option_not_supported"
    with serving(context={"compat": frozenset({"codex"})}) as compatible:
        assert send(compatible, case["request"]).status_code == 200


@pytest.mark.contract("RESP-3", "RESP-37")
def test_developer_items_keep_their_places(client: httpx.Client, prompt_of: Callable[[dict[str, Any]], str]) -> None:
    case = CASES["co-06"]
    assert send(client, case["request"]).status_code == case["check"]["status"]
    prompt = prompt_of(case["request"]["body"])
    order = ["You are a coder.", "Sandbox: read-only", "Hi", "Reply in one word.", "Capital of France?"]
    assert sorted(order, key=prompt.index) == order


@pytest.mark.contract("RESP-35")
def test_results_in_another_order(client: httpx.Client, prompt_of: Callable[[dict[str, Any]], str]) -> None:
    case = CASES["ri-05"]
    assert send(client, case["request"]).status_code == case["check"]["status"]
    prompt = prompt_of(case["request"]["body"])
    assert [prompt.rindex(f"\n{result}\n") for result in case["check"]["prompt_order"]] == sorted(
        prompt.rindex(f"\n{result}\n") for result in case["check"]["prompt_order"]
    )


@pytest.mark.contract("RESP-32", "GEN-22")
def test_forms_of_a_result(client: httpx.Client) -> None:
    """Without vision the picture is refused as such; nothing ever renders it as text."""
    with_image, empty = CASES["ri-08"]["request"]["steps"]
    assert check_error(send(client, with_image))["code"] == "vision_disabled"
    response = send(client, empty)
    assert response.status_code == CASES["ri-08"]["check"]["statuses"][1]
    assert check_error(response)["param"] == "input[2].output"


@pytest.mark.contract("RESP-63")
def test_a_chain_keeps_calls_and_results() -> None:
    case = CASES["rt-01"]
    first, second = case["request"]["steps"]
    with serving(script(first["fake_model"])) as scripted:
        answer = send(scripted, first["base"]).json()
        (call,) = [item for item in answer["output"] if item["type"] == "function_call"]
        request = filled(second, {"$r1.call_id": call["call_id"], "$r1.id": answer["id"]})
        response = send(scripted, request)
        assert response.status_code == case["check"]["statuses"][1]
        # Longer than the question alone: the call and its result are in the prompt.
        assert response.json()["usage"]["input_tokens"] > answer["usage"]["input_tokens"] + 10


@pytest.mark.contract("RESP-70")
def test_what_is_not_stored(client: httpx.Client) -> None:
    case = CASES["rt-03"]
    first, *rest = case["request"]["steps"]
    saved = {"$r1.id": send(client, first).json()["id"]}
    child, got = [send(client, filled(step, saved)) for step in rest]
    assert child.status_code == 404
    assert (got.status_code, check_error(got)["code"]) == (404, case["check"]["codes"][2])


@pytest.mark.contract("RESP-69")
def test_paging(client: httpx.Client) -> None:
    case = CASES["rt-05"]
    first, *rest = case["request"]["steps"]
    saved = {"$r1.id": send(client, first).json()["id"]}
    pages = [send(client, filled(step, saved)) for step in rest]
    assert [page.status_code for page in pages] == case["check"]["statuses"][1:]
    page = pages[0].json()
    assert (len(page["data"]), page["has_more"]) == (case["check"]["step2"]["len"], case["check"]["step2"]["has_more"])
    after = send(client, filled(rest[0], saved | {"limit=2": f"limit=2&after={page['last_id']}"})).json()
    assert [item["content"][0]["text"] for item in [*page["data"], *after["data"]]] == ["a", "b", "c"]


@pytest.mark.contract("RESP-72", "RESP-80")
def test_a_count_is_what_a_response_says(client: httpx.Client) -> None:
    count, created = [send(client, step).json() for step in CASES["rp-04"]["request"]["steps"]]
    assert count["input_tokens"] == created["usage"]["input_tokens"]


def test_every_case_is_used() -> None:
    source = Path(__file__).read_text()
    assert all(f'"{name}"' in source for name in CASES)
