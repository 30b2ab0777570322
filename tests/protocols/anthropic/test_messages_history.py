"""Messages and system text as they become neutral messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ninfer_protocols.anthropic.lowering import lower
from ninfer_protocols.anthropic.thinking import EffortRules

from ninfer_core.api import GenerationRequest, MediaPart, Message, RequestError, TextPart, ToolCall

EFFORTS = EffortRules(exposed=("low", "medium", "xhigh"), map_highest=False)
PNG = "iVBORw0KGgo="
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("look", "wait")]


def lowered(*messages: dict[str, Any], **fields: Any) -> GenerationRequest:
    return lower(json.dumps({"model": "m", "messages": list(messages)} | fields).encode(), EFFORTS).request


def refusal(*messages: dict[str, Any], **fields: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        lowered(*messages, **fields)
    return raised.value


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if content and isinstance(content[0], str) else list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return user(*content) | {"role": "assistant"}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | fields


def use(identifier: str, name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}


def result(identifier: str, *content: Any, **fields: Any) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": identifier}
    if content:
        block["content"] = content[0] if isinstance(content[0], str) or content[0] is None else list(content)
    return block | fields


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source or {"type": "base64", "media_type": "image/png", "data": PNG}}


def said(role: Any, *words: str, **fields: Any) -> Message:
    return Message(role=role, content=tuple(TextPart(word) for word in words), **fields)


@pytest.mark.contract("ANTH-1", "ANTH-2", "CHAT-38")
def test_turns_are_joined_and_system_turns_stay_where_they_are() -> None:
    found = lowered(
        user("a"), user(text("b"), text("")), assistant("c"), assistant(text("d")), user("e"), system("f"),
        assistant("g"), user("h"), system("i"), system="s",
    )  # fmt: skip
    assert found.messages == (
        said("system", "s"),
        said("user", "a", "b", ""),
        said("assistant", "c", "d"),
        said("user", "e"),
        said("system", "f"),
        said("assistant", "g"),
        said("user", "h"),
        said("system", "i"),
    )
    assert found.messages[1].text == "ab"


@pytest.mark.contract("IMPL-12")
@pytest.mark.parametrize(
    "messages",
    [
        [system("s"), user("a")],
        [system("s")],
        [user("a"), assistant("b"), system("s")],
        [user("a"), system("s"), user("b")],
        [user("a"), system("s"), system("t")],
        [user("a"), system("s"), system("t"), assistant("b"), user("c")],
    ],
)
def test_a_system_turn_has_its_places(messages: list[Any]) -> None:
    error = refusal(*messages)
    assert error.code == "invalid_message_order" and (error.param or "").startswith("messages[")


ATTRIBUTION = "x-anthropic-billing-header: cc_version=1.0; cch=aaaaa;"


@pytest.mark.contract("ANTH-5", "ANTH-6")
def test_the_attribution_block_is_taken_away_whole() -> None:
    marked = text(ATTRIBUTION, cache_control={"type": "ephemeral"})
    with_it, without = lowered(user("x"), system=[marked, text("h")]), lowered(user("x"), system=[text("h")])
    assert with_it == without and with_it.cache_marks == ()
    assert lowered(user("x"), system=[marked]).messages == (said("user", "x"),)
    assert lowered(user("x"), system=[marked, text(ATTRIBUTION)]).messages[0] == said("system", ATTRIBUTION)


@pytest.mark.contract("ANTH-6")
@pytest.mark.parametrize(
    "value", [ATTRIBUTION, [text("h"), text(ATTRIBUTION)], [text(" " + ATTRIBUTION)], [text(ATTRIBUTION.upper())]]
)
def test_the_same_text_elsewhere_is_text(value: Any) -> None:
    assert "billing-header" in lowered(user("x"), system=value).messages[0].text.lower()
    assert lowered(user("x"), system(ATTRIBUTION)).messages[-1].text == ATTRIBUTION
    assert lowered(user(text(ATTRIBUTION))).messages[-1].text == ATTRIBUTION


@pytest.mark.parametrize("value", [None, "", []])
def test_no_system_text_is_no_turn(value: Any) -> None:
    assert lowered(user("x"), system=value).messages == (said("user", "x"),)


@pytest.mark.contract("ANTH-1", "ANTH-13", "ANTH-46")
def test_assistant_history() -> None:
    found = lowered(
        user("x"),
        assistant({"type": "thinking", "thinking": "hm", "signature": "anything"}, text("let me ")),
        assistant({"type": "redacted_thinking", "data": "zz"}, {"type": "thinking", "thinking": "!"}, text("look"),
                  use("t1", city="Oslo", z=1, a=2)),
        user(result("t1", "12 C")),
        tools=TOOLS,
    )  # fmt: skip
    call = ToolCall(name="look", arguments={"city": "Oslo", "z": 1, "a": 2}, call_id="t1")
    assert found.messages[1:] == (
        said("assistant", "let me ", "look", reasoning="hm!", tool_calls=(call,)),
        said("tool", "12 C", call_id="t1"),
    )
    assert list(found.messages[1].tool_calls[0].arguments) == ["city", "z", "a"]


@pytest.mark.contract("ANTH-18", "ANTH-19")
def test_results_are_put_in_the_order_of_their_calls() -> None:
    found = lowered(
        user("x"),
        assistant(use("t1"), use("t2", "wait"), use("t3")),
        user(result("t3", "three"), result("t1", text("one"), image(), text("end"))),
        user(result("t2", "boom", is_error=True), text("and?"), image()),
    )
    picture = MediaPart(modality="image", source=f"data:image/png;base64,{PNG}")
    assert found.messages[2:] == (
        Message(role="tool", content=(TextPart("one"), picture, TextPart("end")), call_id="t1"),
        said("tool", "Tool error:\n", "boom", call_id="t2"),
        said("tool", "three", call_id="t3"),
        Message(role="user", content=(TextPart("and?"), picture)),
    )


@pytest.mark.contract("ANTH-18")
@pytest.mark.parametrize("content", [(), (None,), ("",), ([],)])
def test_a_result_without_content_is_empty(content: Any) -> None:
    blocks = result("t1", *content) if content != ([],) else result("t1") | {"content": []}
    assert lowered(user("x"), assistant(use("t1")), user(blocks)).messages[-1] == said("tool", call_id="t1")


@pytest.mark.contract("ANTH-20", "IMPL-13")
@pytest.mark.parametrize(
    "messages",
    [
        [user(result("t0", "old"))],
        [user(result("t0", "old"), result("t9"), text("go on"))],
        [user(result("t0", "old")), assistant("Noted."), user("go on")],
        [assistant("earlier"), user(result("t0", "old"))],
    ],
)
def test_a_history_may_begin_with_results(messages: list[Any]) -> None:
    found = lowered(*messages).messages
    (place,) = [place for place, message in enumerate(found) if message.call_id == "t0"]
    assert found[place - 1] == said("user")


CALLED = [user("x"), assistant(text("Looking."), use("t1"), use("t2"))]


@pytest.mark.contract("ANTH-19", "IMPL-13", "ERR-2")
@pytest.mark.parametrize(
    "messages",
    [
        [*CALLED, user(result("t1"))],
        [*CALLED, user("no results")],
        [*CALLED, user()],
        [*CALLED, user(text("note"), result("t1"), result("t2"))],
        [*CALLED, user(result("t1"), text("note"), result("t2"))],
        [*CALLED, user("note"), user(result("t1"), result("t2"))],
        [*CALLED, user(result("t1"), result("t2"), result("t1"))],
        [*CALLED, user(result("t1"), result("t2"), result("t3"))],
        [*CALLED, user(result("t1"), result("t3"))],
        [*CALLED, user(result("t1"), result("t2")), assistant("ok"), user(result("t1"))],
        [user("x"), assistant("b"), user(result("t1"))],
        [user("x"), assistant(use("t1"), use("t1")), user(result("t1"))],
        [user("x"), assistant(use("t1")), assistant(use("t1")), user(result("t1"))],
        [user(result("t0"), result("t0"))],
        [user(text("note"), result("t0"))],
        [assistant(use("t1")), user("x")],
        [user({"type": "tool_result", "content": "x"})],
        [user(result(""))],
        [user({"type": "tool_result", "tool_use_id": 3})],
        [user("x"), assistant(use("")), user(result(""))],
    ],
)
def test_results_and_calls_have_to_match(messages: list[Any]) -> None:
    assert refusal(*messages).code == "invalid_tool_history"


@pytest.mark.contract("ANTH-19")
def test_a_call_without_its_turn_of_results_is_refused_at_a_system_turn_too() -> None:
    assert refusal(*CALLED, system("s")).code == "invalid_message_order"


@pytest.mark.contract("ANTH-3", "ANTH-4")
def test_a_last_assistant_text_is_the_beginning_of_the_answer() -> None:
    found = lowered(user("x"), assistant("The "), assistant(text("ans")))
    assert found.messages[-1] == said("assistant", "The ", "ans")
    assert found.continue_final and found.template.enable_thinking is False
    assert not lowered(user("x"), assistant("a"), user("y")).continue_final
    assert lowered(user("x"), assistant("")).continue_final
    assert lowered(user("x"), assistant("a"), thinking={"type": "disabled"}).continue_final


@pytest.mark.contract("ANTH-4", "IMPL-14")
@pytest.mark.parametrize(
    ("last", "fields"),
    [
        (assistant(use("t1")), {}),
        (assistant(text("a"), use("t1")), {}),
        (assistant({"type": "thinking", "thinking": "t"}, text("a")), {}),
        (assistant({"type": "redacted_thinking", "data": "x"}, text("a")), {}),
        (assistant("a"), {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (assistant("a"), {"thinking": {"type": "adaptive"}}),
    ],
)
def test_what_a_prefill_cannot_have(last: dict[str, Any], fields: dict[str, Any]) -> None:
    assert refusal(user("x"), last, **fields).code == "assistant_prefill_not_supported"


@pytest.mark.contract("ANTH-27", "ANTH-47")
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("document", "documents_not_supported"),
        ("search_result", "search_results_not_supported"),
        ("server_tool_use", "server_tools_not_supported"),
        ("web_search_tool_result", "server_tools_not_supported"),
        ("bash_code_execution_tool_result", "server_tools_not_supported"),
        ("mcp_tool_use", "server_tools_not_supported"),
        ("mcp_tool_result", "server_tools_not_supported"),
        ("container_upload", "container_not_supported"),
        ("hologram", "content_block_not_supported"),
        ("tool_use", "content_block_not_supported"),
        (None, "invalid_value"),
        (7, "invalid_value"),
    ],
)
def test_blocks_that_are_refused_say_which(kind: Any, code: str) -> None:
    error = refusal(user({"type": kind, "source": {}, "data": ""}))
    assert (error.code, error.param) == (code, "messages[0].content[0].type")
    within = refusal(user(result("t0", {"type": kind})))
    assert (within.code, within.param) == (code, "messages[0].content[0].content[0].type")


@pytest.mark.parametrize("block", [image(), result("t1"), {"type": "thinking", "thinking": "t"}])
def test_blocks_belong_to_their_roles(block: dict[str, Any]) -> None:
    foreign = user(block) if block["type"] == "thinking" else assistant(block)
    assert refusal(foreign, user("x")).code == "content_block_not_supported"
    assert refusal(user("x"), system=[block]).code == "content_block_not_supported"


@pytest.mark.contract("ANTH-47", "ANTH-48", "CHAT-36")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"type": "file", "file_id": "f"}, "files_not_supported"),
        ({"type": "base64", "media_type": "image/png", "data": "not base64!"}, "invalid_media"),
        ({"type": "base64", "media_type": "image/png", "data": "AAA"}, "invalid_media"),
        ({"type": "base64", "media_type": "image/png", "data": ""}, "invalid_media"),
        ({"type": "base64", "media_type": "image/png", "data": "ü"}, "invalid_media"),
        ({"type": "base64", "media_type": "image/png"}, "invalid_media"),
        ({"type": "base64", "media_type": "a,b;c", "data": PNG}, "invalid_media"),
        ({"type": "url", "url": "ftp://example.org/x.png"}, "invalid_media"),
        ({"type": "url", "url": "file:///etc/passwd"}, "invalid_media"),
        ({"type": "url"}, "invalid_media"),
        ({"type": "text"}, "invalid_value"),
        ({"type": ["url"]}, "invalid_value"),
    ],
)
def test_malformed_images(source: dict[str, Any], code: str) -> None:
    assert refusal(user(image(**source))).code == code
    assert refusal(user({"type": "image", "source": "x"})).code == "invalid_type"


@pytest.mark.contract("ANTH-47", "ANTH-48")
def test_images_are_kept_where_they_are() -> None:
    web = image(type="url", url="https://example.org/x.png") | {"transformations": {"oversized_image": "error"}}
    found = lowered(user(text("a"), web, image(type="base64", data=PNG))).messages[0].content
    assert found == (
        TextPart("a"),
        MediaPart(modality="image", source="https://example.org/x.png"),
        MediaPart(modality="image", source=f"data:application/octet-stream;base64,{PNG}"),
    )
    assert refusal(user(web | {"transformations": {"oversized_image": "crop"}})).code == "invalid_value"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
        ({"messages": [user({"type": "text", "text": 3})]}, "messages[0].content[0].text"),
        ({"messages": [user(result("t", 3) | {"content": 3})]}, "messages[0].content[0].content"),
        ({"messages": [user(result("t") | {"content": ["x"]})]}, "messages[0].content[0].content"),
        ({"messages": [user(result("t", is_error="yes"))]}, "messages[0].content[0].is_error"),
        ({"messages": [user("x"), assistant(use("t") | {"input": "{}"})]}, "messages[1].content[0].input"),
        ({"messages": [user("x"), assistant(use("t", "a b"))]}, "messages[1].content[0].name"),
        ({"messages": [user("x")], "system": 3}, "system"),
        ({"messages": [user("x")], "system": ["a"]}, "system[0]"),
    ],
)
def test_malformed_history_names_its_place(fields: dict[str, Any], param: str) -> None:
    assert refusal(**fields).param == param
