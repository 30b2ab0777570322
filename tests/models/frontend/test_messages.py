from __future__ import annotations

import pytest
from ninfer_models.qwen_hybrid.frontend.messages import template_messages, template_tools

from ninfer_core.api import InvalidPrompt, MediaPart, Message, RequestError, TextPart, ToolCall, ToolDefinition


def message(role: str, *texts: str, **fields: object) -> Message:
    return Message(role=role, content=tuple(TextPart(text) for text in texts), **fields)  # type: ignore[arg-type]


def test_leading_instructions_become_one_system_turn() -> None:
    messages = (message("system", "one"), message("developer"), message("developer", "tw", "o"), message("user", "q"))
    assert template_messages(messages, system_anywhere=False) == [
        {"role": "system", "content": "one\n\ntwo"},
        {"role": "user", "content": "q"},
    ]


@pytest.mark.contract("CHAT-38")
def test_developer_turns_are_system_turns_in_place() -> None:
    messages = (message("developer", "a"), message("user", "q"), message("developer", "b"))
    assert [each["role"] for each in template_messages(messages, system_anywhere=True)] == ["system", "user", "system"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_later_instruction_is_refused_by_name(role: str) -> None:
    messages = (message("system", "a"), message("user", "q"), message(role, "now"), message("user", "q"))
    with pytest.raises(InvalidPrompt, match=rf"messages\[2\] is a {role} message") as caught:
        template_messages(messages, system_anywhere=False)
    assert (caught.value.code, caught.value.param) == ("invalid_prompt", "messages[2]")


def test_no_messages() -> None:
    with pytest.raises(InvalidPrompt, match="at least one user message"):
        template_messages((), system_anywhere=False)


@pytest.mark.contract("GEN-22")
def test_media_is_refused_where_it_stands() -> None:
    picture = Message(role="user", content=(TextPart("see"), MediaPart(modality="image", source="data:,")))
    with pytest.raises(RequestError, match="an image") as caught:
        template_messages((message("user", "q"), picture), system_anywhere=False)
    assert (caught.value.code, caught.value.param) == ("vision_disabled", "messages[1].content")


@pytest.mark.contract("CHAT-4", "CHAT-40")
def test_an_assistant_turn_keeps_everything_in_order() -> None:
    arguments = {"z": 1, "a": {"y": [], "b": None}}
    turn = message("assistant", reasoning="r", tool_calls=(ToolCall(name="f", arguments=arguments, call_id="c"),))
    result = message("tool", "ok", "!", call_id="c")
    sent, answered = template_messages((turn, result), system_anywhere=False)
    assert sent["content"] == ""
    assert sent["reasoning_content"] == "r"
    assert list(sent["tool_calls"][0]["function"]["arguments"]) == ["z", "a"]
    assert answered == {"role": "tool", "content": "ok!", "tool_call_id": "c"}
    assert "reasoning_content" not in template_messages((message("assistant"),), system_anywhere=False)[0]
    empty = template_messages((message("assistant", reasoning=""),), system_anywhere=False)
    assert empty[0]["reasoning_content"] == ""  # said to be none, so a template must not look for it in the content


@pytest.mark.contract("CHAT-40")
def test_tools_are_the_objects_received() -> None:
    definition = {"type": "function", "function": {"name": "f", "z": 1, "a": 2}}
    assert template_tools((ToolDefinition(name="f", parameters={}, definition=definition),)) == [definition]
    assert template_tools(()) is None
