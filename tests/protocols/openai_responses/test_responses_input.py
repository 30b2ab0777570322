"""Items in, neutral conversation out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import CacheMark, MediaPart, Message, TextPart, ToolCall
from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
USER = {"role": "user", "content": "x"}


def call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": '{"b":1,"a":2}'} | fields


def output(call_id: str, result: Any = "R", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": result} | fields


def reasoning(text: str = "think", **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}]} | fields


def said(text: str, kind: str = "output_text") -> dict[str, Any]:
    field = "refusal" if kind == "refusal" else "text"
    return {"type": "message", "role": "assistant", "content": [{"type": kind, field: text}]}


def messages(connect: Connect, items: Any, **fields: Any) -> tuple[Message, ...]:
    connection = connect()
    connection.create(input=items, **fields)
    found: tuple[Message, ...] = connection.service.requests[-1].messages
    return found


def text(role: Any, *parts: str, **fields: Any) -> Message:
    return Message(role=role, content=tuple(TextPart(part) for part in parts), **fields)


@pytest.mark.contract("RESP-23")
def test_a_string_is_one_user_message(connect: Connect) -> None:
    connection = connect()
    created = connection.create(input=" Hi ")
    assert connection.service.requests[-1].messages == (text("user", " Hi "),)
    (item,) = connection.send("GET", f"/{created['id']}/input_items").json()["data"]
    assert item.pop("id").startswith("msg_")
    assert item == {
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": " Hi "}],
    }


@pytest.mark.contract("RESP-3", "RESP-24", "RESP-25", "RESP-37")
def test_roles_keep_their_places_behind_the_instructions(connect: Connect) -> None:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Read only."}]},
        USER,
        {"role": "system", "content": "One word."},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
    ]
    assert messages(connect, items, instructions="Code.") == (
        text("developer", "Code."),
        text("developer", "Read only."),
        text("user", "x"),
        text("system", "One word."),
        text("user", "a", "b"),
        text("user"),
        text("user"),
    )


@pytest.mark.contract("RESP-26", "RESP-27", "RESP-30", "RESP-31", "RESP-33", "RESP-39")
def test_what_the_assistant_said_in_one_go_is_one_turn(connect: Connect) -> None:
    items = [
        USER,
        reasoning("a", summary=[{"type": "summary_text", "text": "s"}], encrypted_content="zzz", status="completed"),
        reasoning("b"),
        said("c") | {"status": "incomplete", "phase": "commentary"},
        {"role": "assistant", "content": "d"},
        said("no", "refusal"),
        call("c1"),
        call("c2", namespace="maps"),
        output("c1"),
        output("c2"),
        reasoning("again"),
        USER,
    ]
    arguments = {"b": 1, "a": 2}
    found = messages(connect, items)
    assert found[1] == text(
        "assistant",
        "c",
        "d",
        "no",
        reasoning="ab",
        tool_calls=(
            ToolCall(name="look", arguments=arguments, call_id="c1"),
            ToolCall(name="maps__look", arguments=arguments, call_id="c2"),
        ),
    )
    assert list(found[1].tool_calls[0].arguments) == ["b", "a"]
    assert found[2:4] == (text("tool", "R", call_id="c1"), text("tool", "R", call_id="c2"))
    assert found[4] == text("assistant", reasoning="again")


@pytest.mark.contract("RESP-35", "RESP-36")
def test_results_follow_the_order_of_the_calls_and_items_that_of_the_client(connect: Connect) -> None:
    connection = connect()
    items = [USER, call("c1", id="fc_mine"), call("c2"), output("c2", "B"), output("c1", "A")]
    created = connection.create(input=items)
    assert [message.text for message in connection.service.requests[-1].messages[2:]] == ["A", "B"]
    listed = connection.send("GET", f"/{created['id']}/input_items?order=asc").json()["data"]
    assert [item.get("call_id") for item in listed] == [None, "c1", "c2", "c2", "c1"]
    assert listed[1]["id"] == "fc_mine" and len({item["id"] for item in listed}) == 5


@pytest.mark.contract("RESP-32")
def test_forms_of_a_result(connect: Connect) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PIXEL}]
    found = messages(
        connect, [USER, call("c1", namespace="n"), output("c1", parts, name="look", namespace="n", status="completed")]
    )
    assert found[2].content == (TextPart("a"), MediaPart(modality="image", source=PIXEL))
    assert messages(connect, [USER, call("c1"), output("c1", "")])[2].content == ()


@pytest.mark.contract("RESP-28", "RESP-29")
def test_media_of_messages(connect: Connect) -> None:
    image = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"}
    video = {"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"}
    found = messages(connect, [{"role": "user", "content": [image, video]}, {"role": "assistant", "content": [image]}])
    sources = (
        MediaPart(modality="image", source="https://example.org/a.png"),
        MediaPart(modality="video", source="data:video/mp4;base64,AAAA"),
    )
    assert (found[0].content, found[1].content) == (sources, sources[:1])


TURN = "invalid_assistant_history"
TOOL = "invalid_tool_history"


@pytest.mark.contract("RESP-32", "RESP-34", "RESP-35", "ERR-2")
@pytest.mark.parametrize(
    ("items", "param", "code"),
    [
        ([USER, said("a"), reasoning()], "input[2]", TURN),
        ([USER, call("c1"), reasoning()], "input[2]", TURN),
        ([USER, call("c1"), said("a"), output("c1")], "input[2]", TURN),
        ([USER, output("c9")], "input[1]", TOOL),
        ([USER, call("c1"), output("c9")], "input[2]", TOOL),
        ([USER, call("c1"), output("c1"), output("c1")], "input[3]", TOOL),
        ([USER, call("c1"), call("c2"), output("c1"), USER], "input[4]", TOOL),
        ([USER, call("c1"), call("c2"), output("c1"), said("a")], "input[4]", TOOL),
        ([USER, call("c1"), call("c2"), output("c1")], "input", TOOL),
        ([USER, call("c1"), USER, output("c1")], "input[2]", TOOL),
        ([USER, call("c1")], "input", TOOL),
        ([USER, call("c1"), call("c1"), output("c1")], "input[2]", TOOL),
        ([USER, call("c1"), output("c1"), call("c1"), output("c1")], "input[3]", TOOL),
        ([USER, call("c1"), output("c1", name="other")], "input[2]", TOOL),
        ([USER, call("c1"), output("c1", namespace="n")], "input[2]", TOOL),
    ],
)
def test_histories_that_cannot_be(connect: Connect, items: Any, param: str, code: str) -> None:
    error = connect().refusal(input=items)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize(("then", "words"), [([], "input: ends before"), ([USER], "input[2]: comes before")])
def test_calls_without_results_are_named(connect: Connect, then: Any, words: str) -> None:
    error = connect().refusal(input=[USER, call("c1"), *then])
    assert error["message"] == f"{words} a result for: c1; send one for each call"


def user(part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [part]}]


@pytest.mark.contract("RESP-26", "RESP-28", "RESP-30", "RESP-31", "RESP-32", "RESP-36", "RESP-38", "RESP-40", "RESP-78")
@pytest.mark.parametrize(
    ("items", "param", "code"),
    [
        ([USER, {"type": "brand_new_item"}], "input[1].type", "item_type_not_supported"),
        ([USER, {"type": "item_reference", "id": "msg_1"}], "input[1].type", "item_type_not_supported"),
        ([USER, {"type": 5}], "input[1].type", "item_type_not_supported"),
        ([USER, {}], "input[1].type", "item_type_not_supported"),
        ([USER, "text"], "input[1]", "invalid_type"),
        ([USER, None], "input[1]", "invalid_type"),
        ([{"role": "tool", "content": "x"}], "input[0].role", "unsupported_role"),
        ([{"role": "user"}], "input[0].content", "invalid_type"),
        ([{"role": "user", "content": 5}], "input[0].content", "invalid_type"),
        ([{"role": "user", "content": "x", "id": ""}], "input[0].id", "invalid_value"),
        ([{"role": "user", "content": "x", "status": 1}], "input[0].status", "invalid_type"),
        ([{"role": "user", "content": "x", "phase": {}}], "input[0].phase", "invalid_type"),
        ([USER | {"id": "msg_1"}, USER | {"id": "msg_1"}], "input[1].id", "duplicate_item_id"),
        (user("x"), "input[0].content[0]", "invalid_type"),
        (user({"type": "input_text"}), "input[0].content[0].text", "invalid_type"),
        (user({"type": "output_text", "text": "x"}), "input[0].content[0].type", "invalid_value"),
        (user({"type": "refusal", "refusal": "x"}), "input[0].content[0].type", "invalid_value"),
        (user({"type": "text", "text": "x"}), "input[0].content[0].type", "content_type_not_supported"),
        (user({"type": "input_file", "file_id": "f"}), "input[0].content[0].type", "file_inputs_not_supported"),
        (user({"type": "input_audio"}), "input[0].content[0].type", "audio_inputs_not_supported"),
        (
            user({"type": "input_image", "file_id": "f"}),
            "input[0].content[0].file_id",
            "file_inputs_not_supported",
        ),
        (
            user({"type": "input_image", "image_url": PIXEL, "detail": "high"}),
            "input[0].content[0].detail",
            "image_detail_not_supported",
        ),
        *(
            (user({"type": "input_image", "image_url": url}), "input[0].content[0].image_url", "invalid_media")
            for url in (None, "", "file:///etc/passwd", "data:image/png,abc", {"url": PIXEL}, "http://[", "https://")
        ),
        (user({"type": "input_video"}), "input[0].content[0].video_url", "invalid_media"),
        (
            user({"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "implicit"}}),
            "input[0].content[0].prompt_cache_breakpoint",
            "invalid_cache_breakpoint",
        ),
        (
            [{"role": "system", "content": [{"type": "input_image", "image_url": PIXEL}]}],
            "input[0].content[0].type",
            "modality_not_supported",
        ),
        ([USER, {"type": "reasoning"}], "input[1].content", "reasoning_content_not_supported"),
        ([USER, {"type": "reasoning", "content": []}], "input[1].content", "reasoning_content_not_supported"),
        (
            [USER, {"type": "reasoning", "summary": [], "encrypted_content": "x"}],
            "input[1].content",
            "reasoning_content_not_supported",
        ),
        (
            [USER, {"type": "reasoning", "content": [{"type": "summary_text", "text": "x"}]}],
            "input[1].content[0].type",
            "reasoning_content_not_supported",
        ),
        (
            [USER, {"type": "reasoning", "content": [{"type": "reasoning_text"}]}],
            "input[1].content[0].text",
            "invalid_type",
        ),
        ([USER, call("c1", arguments="[1]"), output("c1")], "input[1].arguments", "invalid_value"),
        ([USER, call("c1", arguments="{bad"), output("c1")], "input[1].arguments", "invalid_value"),
        ([USER, call("c1", arguments=""), output("c1")], "input[1].arguments", "invalid_value"),
        ([USER, call("c1", arguments={"a": 1}), output("c1")], "input[1].arguments", "invalid_type"),
        (
            [
                USER,
                call(
                    "",
                ),
                output(""),
            ],
            "input[1].call_id",
            "invalid_value",
        ),
        ([USER, call("c1", name="a b"), output("c1")], "input[1].name", "invalid_tool_name"),
        ([USER, call("c1", namespace=""), output("c1")], "input[1].namespace", "invalid_tool_name"),
        ([USER, call("c1", status="in_progress"), output("c1")], "input[1].status", "partial_items_not_supported"),
        ([USER, call("c1"), output("c1", status="incomplete")], "input[2].status", "partial_items_not_supported"),
        ([USER, call("c1"), output("c1", [])], "input[2].output", "invalid_value"),
        ([USER, call("c1"), output("c1", {"a": 1})], "input[2].output", "invalid_type"),
        ([USER, call("c1"), output("c1", None)], "input[2].output", "invalid_type"),
        (
            [USER, call("c1"), output("c1", [{"type": "input_file"}])],
            "input[2].output[0].type",
            "file_inputs_not_supported",
        ),
        (
            [USER, call("c1"), output("c1", [{"type": "output_text", "text": "x"}])],
            "input[2].output[0].type",
            "content_type_not_supported",
        ),
        (
            [USER, call("c1"), output("c1", [{"type": "input_video", "video_url": PIXEL}])],
            "input[2].output[0].type",
            "modality_not_supported",
        ),
    ],
)
def test_items_that_are_refused(connect: Connect, items: Any, param: str, code: str) -> None:
    error = connect().refusal(input=items)
    assert (error["param"], error["code"]) == (param, code)


BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def marked(name: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": name} | BREAK]}


@pytest.mark.contract("RESP-38", "PCACHE-1", "PCACHE-2", "PCACHE-3", "PCACHE-4", "PCACHE-5", "IMPL-18")
@pytest.mark.parametrize(
    ("items", "mode", "places"),
    [
        ([USER], None, [(0, 0, "automatic")]),
        ([USER], "implicit", [(0, 0, "automatic")]),
        ([USER], "explicit", []),
        ([marked("a"), USER], "explicit", [(0, 0, "explicit")]),
        ([marked("a"), USER], None, [(0, 0, "explicit"), (1, 0, "automatic")]),
        ([USER, marked("a")], None, [(1, 0, "explicit")]),
        ([*map(marked, "abcdef")], "explicit", [(place, 0, "explicit") for place in (2, 3, 4, 5)]),
        ([*map(marked, "abcdef"), USER], None, [*((place, 0, "explicit") for place in (3, 4, 5)), (6, 0, "automatic")]),
        ([*map(marked, "abcdef")], None, [(place, 0, "explicit") for place in (2, 3, 4, 5)]),
        (
            [USER, call("c1"), output("c1", [{"type": "input_text", "text": "r"} | BREAK])],
            "explicit",
            [(2, 0, "explicit")],
        ),
        ([USER, call("c1"), output("c1", "")], None, [(1, None, "automatic")]),
    ],
)
def test_cache_marks(connect: Connect, items: Any, mode: str | None, places: Any) -> None:
    connection = connect()
    connection.create(input=items, prompt_cache_options=None if mode is None else {"mode": mode, "ttl": "30m"})
    ttl = None if mode is None else "30m"
    assert connection.service.requests[-1].cache_marks == tuple(
        CacheMark(message=message, part=part, evidence=evidence, ttl=ttl) for message, part, evidence in places
    )


@pytest.mark.contract("PCACHE-8", "RESP-66")
def test_hints_do_not_reach_the_prompt(connect: Connect) -> None:
    connection = connect(EventScript())
    connection.create(input=[marked("a")], prompt_cache_key="k", store=False)
    connection.create(input=[{"role": "user", "content": "a"}], store=False)
    first, second = connection.service.requests
    assert first.messages == second.messages and first.cache_session is None
