"""Stored responses: continuation, retrieval, deletion, paging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ninfer_core.api import CacheSession, MediaPart, TextPart
from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
CALLING = EventScript(pieces=(("reasoning", "hm"), ("content", "see")), calls=(("look", {"b": 1, "a": 2}),))


def prompt(connection: Any) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in connection.service.requests[-1].messages]


@pytest.mark.contract("RESP-4", "RESP-63", "RESP-33")
def test_a_chain_has_the_whole_history_and_the_current_instructions(connect: Connect) -> None:
    connection = connect(CALLING)
    first = connection.create(instructions="One.", tools=TOOLS)
    call_id = first["output"][-1]["call_id"]
    connection.service.script = EventScript()
    result = [{"type": "function_call_output", "call_id": call_id, "output": "12 C"}]
    second = connection.create(input=result, previous_response_id=first["id"], instructions="Two.")
    assert second["previous_response_id"] == first["id"]
    request = connection.service.requests[-1]
    assert request.tools == ()
    assert prompt(connection) == [("developer", "Two."), ("user", "Say OK."), ("assistant", "see"), ("tool", "12 C")]
    turn = request.messages[2]
    assert (turn.reasoning, turn.tool_calls[0].call_id) == ("hm", call_id)
    assert list(turn.tool_calls[0].arguments) == ["b", "a"]
    third = connection.create(input="Go on.", previous_response_id=second["id"])
    assert third["instructions"] is None
    assert prompt(connection)[2:] == [("tool", "12 C"), ("assistant", "Hello there."), ("user", "Go on.")]


@pytest.mark.contract("RESP-44", "RESP-63")
def test_names_in_a_chain_find_back_to_the_model(connect: Connect) -> None:
    connection = connect(EventScript(pieces=(), calls=(("maps__look", {}),)))
    space = [{"type": "namespace", "name": "maps", "description": "", "tools": TOOLS}]
    first = connection.stream(tools=space)[-1][1]["response"]
    call = first["output"][0]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "x", "namespace": "maps"}
    connection.create(input=[result], previous_response_id=first["id"], tools=space)
    assert connection.service.requests[-1].messages[1].tool_calls[0].name == "maps__look"
    connection.create(input=[{"role": "user", "content": "Say OK."}, call, result], tools=space)
    assert connection.service.requests[-1].messages == connection.service.requests[-2].messages


@pytest.mark.contract("RESP-41")
def test_a_chain_keeps_the_address_of_an_image_and_not_its_bytes(connect: Connect) -> None:
    connection = connect()
    url = "https://example.org/a.png"
    first = connection.create(input=[{"role": "user", "content": [{"type": "input_image", "image_url": url}]}])
    connection.create(input="And now?", previous_response_id=first["id"])
    assert connection.service.requests[-1].messages[0].content == (MediaPart(modality="image", source=url),)


@pytest.mark.contract("RESP-2")
def test_input_may_be_missing_where_the_chain_has_a_question(connect: Connect) -> None:
    connection = connect()
    first = connection.create()
    for nothing in (None, "", []):
        connection.create(input=nothing, previous_response_id=first["id"])
        assert prompt(connection) == [("user", "Say OK."), ("assistant", "Hello there.")]
    unasked = connection.create(input=[{"role": "developer", "content": "x"}])
    assert connection.refusal(input=[], previous_response_id=unasked["id"])["param"] == "input"


@pytest.mark.contract("RESP-36")
def test_an_id_stands_for_one_item_of_a_chain(connect: Connect) -> None:
    connection = connect()
    first = connection.create()
    again = [first["output"][0], {"role": "user", "content": "x"}]
    error = connection.refusal(input=again, previous_response_id=first["id"])
    assert (error["param"], error["code"]) == ("input[0].id", "duplicate_item_id")


@pytest.mark.contract("RESP-35")
def test_a_chain_needs_its_results(connect: Connect) -> None:
    connection = connect(CALLING)
    first = connection.create(tools=TOOLS)
    error = connection.refusal(input="And?", previous_response_id=first["id"])
    assert error["code"] == "invalid_tool_history"
    error = connection.refusal("/v1/responses/input_tokens", input="And?", previous_response_id=first["id"])
    assert error["code"] == "invalid_tool_history"


@pytest.mark.contract("RESP-64")
def test_preserve_thinking_is_inherited(connect: Connect) -> None:
    connection = connect()
    first = connection.create(preserve_thinking=True)
    second = connection.create(previous_response_id=first["id"])
    assert connection.service.requests[-1].template.preserve_thinking is True
    third = connection.create(previous_response_id=second["id"], preserve_thinking=False)
    connection.create(previous_response_id=third["id"])
    assert connection.service.requests[-1].template.preserve_thinking is False
    connection.create(previous_response_id=first["id"])
    assert connection.service.requests[-1].template.preserve_thinking is True


@pytest.mark.contract("RESP-65", "RESP-66")
def test_sessions(connect: Connect) -> None:
    connection = connect()
    root = connection.create()
    session = CacheSession(key=root["id"], replaces_endpoint=True)
    assert connection.service.requests[-1].cache_session == session
    child = connection.create(previous_response_id=root["id"])
    assert connection.service.requests[-1].cache_session == session
    connection.create(previous_response_id=child["id"], store=False)
    assert connection.service.requests[-1].cache_session == msgspec.structs.replace(session, replaces_endpoint=False)
    connection.create(store=False)
    assert connection.service.requests[-1].cache_session is None
    assert not any("session" in field or "mark" in field for field in child)


@pytest.mark.contract("GEN-11", "RESP-6", "RESP-67", "RESP-70")
@pytest.mark.parametrize("stream", [False, True])
def test_retrieval(connect: Connect, stream: bool) -> None:
    connection = connect(CALLING)
    answer = connection.stream(tools=TOOLS)[-1][1]["response"] if stream else connection.create(tools=TOOLS)
    got = connection.send("GET", f"/{answer['id']}?stream=false")
    assert (got.status_code, got.json()) == (200, answer)
    unstored = connection.create(store=False)
    for path in (f"/{unstored['id']}", f"/{unstored['id']}/input_items", "/resp_missing", "/" + "x" * 2000):
        missing = connection.send("GET", path)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "response_not_found")
    response = connection.post(previous_response_id=unstored["id"])
    assert response.status_code == 404
    assert (response.json()["error"]["code"], response.json()["error"]["param"]) == (
        "response_not_found",
        "previous_response_id",
    )


@pytest.mark.contract("RESP-67")
@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("stream=true", "stream", "stream_recovery_not_supported"),
        ("starting_after=3", "starting_after", "stream_recovery_not_supported"),
        ("include=reasoning.encrypted_content", "include", "include_not_supported"),
        ("include[]=x&include[]=y", "include", "include_not_supported"),
    ],
)
def test_what_retrieval_does_not_do(connect: Connect, query: str, param: str, code: str) -> None:
    connection = connect()
    response = connection.send("GET", f"/{connection.create()['id']}?{query}")
    assert response.status_code == 400
    assert (response.json()["error"]["param"], response.json()["error"]["code"]) == (param, code)


@pytest.mark.contract("GEN-11", "RESP-68", "RESP-70")
def test_deletion(connect: Connect) -> None:
    connection = connect()
    first = connection.create(input="Who?")
    second = connection.create(input="Why?", previous_response_id=first["id"])
    gone = connection.send("DELETE", f"/{first['id']}")
    assert gone.json() == {"id": first["id"], "object": "response.deleted", "deleted": True}
    for method in ("GET", "DELETE"):
        assert connection.send(method, f"/{first['id']}").status_code == 404
    assert connection.post(previous_response_id=first["id"]).status_code == 404
    connection.create(input="How?", previous_response_id=second["id"])
    assert [text for role, text in prompt(connection) if role == "user"] == ["Who?", "Why?", "How?"]


@pytest.mark.contract("RESP-62", "RESP-70", "OPT-20")
def test_eviction(connect: Connect) -> None:
    connection = connect(store={"records": 2})
    created = [connection.create()["id"] for _ in range(3)]
    assert [connection.send("GET", f"/{name}").status_code for name in created] == [404, 200, 200]


@pytest.mark.contract("RESP-71", "OPT-21")
def test_a_response_larger_than_the_store(connect: Connect) -> None:
    connection = connect(EventScript(pieces=(("content", "y" * 5000),)), store={"bytes": 8000})
    assert connection.refusal(input="x" * 9000)["code"] == "response_store_capacity_exceeded"
    assert connection.service.requests == []
    error = connection.refusal()
    assert (error["code"], error["param"]) == ("response_store_capacity_exceeded", "store")
    kind, payload = connection.stream()[-1]
    assert kind == "response.failed"
    assert payload["response"]["error"]["code"] == "response_store_capacity_exceeded"
    assert connection.send("GET", f"/{payload['response']['id']}").status_code == 404
    connection.create(store=False)


@pytest.fixture
def listed(connect: Connect) -> Callable[[str], Any]:
    connection = connect()
    items = [{"role": "user", "content": name, "id": f"msg_{name}"} for name in "abc"]
    created = connection.create(input=items)
    child = connection.create(input="next", previous_response_id=created["id"])

    def page(query: str, of: str = "parent") -> Any:
        name = child["id"] if of == "child" else created["id"]
        return connection.send("GET", f"/{name}/input_items?{query}")

    return page


@pytest.mark.contract("RESP-69")
def test_pages_of_input_items(listed: Callable[..., Any]) -> None:
    def ids(query: str) -> list[str]:
        return [item["id"] for item in listed(query).json()["data"]]

    assert ids("") == ids("order=desc") == ["msg_c", "msg_b", "msg_a"]
    first = listed("order=asc&limit=2").json()
    assert (first["object"], first["first_id"], first["last_id"], first["has_more"]) == (
        "list",
        "msg_a",
        "msg_b",
        True,
    )
    second = listed("order=asc&limit=2&after=msg_b").json()
    assert ([item["id"] for item in second["data"]], second["has_more"]) == (["msg_c"], False)
    assert listed("after=msg_a").json() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
    assert ids("limit=100") == ids("")
    (only,) = listed("", of="child").json()["data"]
    assert only["content"] == [{"type": "input_text", "text": "next"}]


@pytest.mark.contract("RESP-69")
@pytest.mark.parametrize(
    ("query", "param"),
    [
        *((f"limit={limit}", "limit") for limit in ("0", "101", "-1", "x", "1.5", "", "٣", "9" * 5000)),
        ("order=up", "order"),
        ("after=msg_none", "after"),
        ("include=x", "include"),
    ],
)
def test_queries_that_are_refused(listed: Callable[..., Any], query: str, param: str) -> None:
    response = listed(query)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.contract("GEN-12", "RESP-75", "RESP-76", "ERR-2")
def test_what_exists_to_say_no(connect: Connect) -> None:
    connection = connect()
    created = connection.create()
    for path, code in (
        (f"/{created['id']}/cancel", "background_not_supported"),
        ("/resp_missing/cancel", "background_not_supported"),
        ("/compact", "compaction_not_supported"),
    ):
        response = connection.send("POST", path)
        assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert connection.send("PUT", f"/{created['id']}").status_code == 405
    assert connection.send("POST", "/a/b/c").status_code == 404


def test_the_render_hook_lowers_the_same_way(connect: Connect) -> None:
    from ninfer_protocols.openai_responses import ninfer_protocol_lower

    body = {"model": "any", "input": "Hi", "instructions": "Brief.", "tools": TOOLS, "store": False}
    connection = connect()
    connection.create(**(body | {"model": "scripted-model"}))
    lowered = ninfer_protocol_lower(body=msgspec.json.encode(body))
    assert lowered == connection.service.requests[-1]
    assert lowered.messages[0].content == (TextPart("Brief."),)
