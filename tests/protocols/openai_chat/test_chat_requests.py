"""What is accepted, and how it is lowered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ninfer_protocols.openai_chat.lowering import lower

from ninfer_core.api import (
    CacheMark,
    GenerationRequest,
    MediaPart,
    Message,
    RequestError,
    TemplateOptions,
    TextPart,
    ToolCall,
)

USER = {"role": "user", "content": "hi"}


def lowered(**fields: Any) -> GenerationRequest:
    return lower(json.dumps({"messages": [USER]} | fields).encode(), "tiny").request


def messages(*history: dict[str, Any]) -> tuple[Message, ...]:
    return lowered(messages=list(history)).messages


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        lowered(**fields)
    return raised.value


@pytest.mark.contract("CHAT-8", "IMPL-7")
@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": None, "max_completion_tokens": None}, None),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 3}, 3),
        ({"max_completion_tokens": 0, "max_tokens": 9}, 0),
        ({"max_tokens": 10**30}, 10**30),
    ],
)
def test_output_limit(fields: dict[str, Any], limit: int | None) -> None:
    assert lowered(**fields).max_output_tokens == limit


@pytest.mark.contract("CHAT-9", "CHAT-10")
def test_sampling_fields_reach_the_request() -> None:
    fields = {"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0.5, "presence_penalty": -2, "frequency_penalty": 2}
    sampling = lowered(**fields, seed=-(2**63)).sampling
    assert {field: getattr(sampling, field) for field in fields} == fields
    assert sampling.seed == -(2**63)


@pytest.mark.contract("CHAT-9", "CHAT-10", "CHAT-35")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("top_p", 1.1),
        ("top_k", 21),
        ("top_k", -1),
        ("min_p", 1.5),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("seed", 2**63),
        ("seed", -(2**63) - 1),
        ("max_tokens", -1),
        ("max_completion_tokens", -1),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(field: str, value: float) -> None:
    error = refusal(**{field: value})
    assert (error.param, error.code) == (field, "invalid_value")
    assert field in error.message and str(value) in error.message


@pytest.mark.contract("CHAT-35")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", True),
        ("max_tokens", "64"),
        ("temperature", "0.7"),
        ("temperature", True),
        ("seed", 1.5),
        ("stream", "yes"),
        ("stream_options", []),
        ("stop", 3),
        ("tools", {}),
        ("reasoning_effort", 2),
        ("enable_thinking", 1),
        ("chat_template_kwargs", "x"),
        ("messages", {}),
        ("messages", None),
    ],
)
def test_a_wrong_type_names_its_field(field: str, value: object) -> None:
    error = refusal(**{field: value})
    assert (error.param, error.code) == (field, "invalid_type")


def test_a_missing_history_is_a_field_error() -> None:
    with pytest.raises(RequestError) as raised:
        lower(b"{}", "tiny")
    assert (raised.value.param, raised.value.code) == ("messages", "invalid_type")


@pytest.mark.contract("CHAT-11")
def test_stop_strings() -> None:
    assert lowered(stop="END").stop == ("END",)
    assert lowered(stop=["a", "b", "c", "d"]).stop == ("a", "b", "c", "d")
    assert lowered(stop=[]).stop == lowered(stop=None).stop == ()
    assert lowered(stop="x").stop_channels == ("reasoning", "content")
    for bad in (["a"] * 5, "", ["a", ""]):
        assert refusal(stop=bad).param == "stop"


@pytest.mark.contract("CHAT-2", "CHAT-1")
def test_only_a_non_empty_model_name_has_to_match() -> None:
    for loose in ({}, {"model": None}, {"model": ""}, {"model": 3}, {"model": "tiny"}):
        lowered(**loose)
    error = refusal(model="other")
    assert (error.code, error.param) == ("model_not_found", "model")


@pytest.mark.contract("CHAT-18", "CHAT-19", "TMPL-4", "TMPL-7", "CHAT-34")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, TemplateOptions()),
        ({"reasoning_effort": "none"}, TemplateOptions(enable_thinking=False)),
        ({"reasoning_effort": "high"}, TemplateOptions(reasoning_effort="high")),
        ({"enable_thinking": False}, TemplateOptions(enable_thinking=False)),
        ({"chat_template_kwargs": {"enable_thinking": True}}, TemplateOptions(enable_thinking=True)),
        (
            {"preserve_thinking": True, "chat_template_kwargs": {"preserve_thinking": True, "other": None}},
            TemplateOptions(preserve_thinking=True),
        ),
    ],
)
def test_template_options(fields: dict[str, Any], expected: TemplateOptions) -> None:
    assert lowered(**fields).template == expected


@pytest.mark.contract("TMPL-5", "TMPL-7", "CHAT-34")
@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        (
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
            "conflicting_template_option",
            "enable_thinking",
        ),
        (
            {"enable_thinking": True, "reasoning_effort": "none"},
            "conflicting_template_option",
            "reasoning_effort",
        ),
        ({"chat_template_kwargs": {"add_vision_id": True}}, "invalid_value", "chat_template_kwargs.add_vision_id"),
        ({"chat_template_kwargs": {"enable_thinking": 1}}, "invalid_value", "chat_template_kwargs.enable_thinking"),
        ({"reasoning_effort": "huge"}, "invalid_value", "reasoning_effort"),
    ],
)
def test_template_options_that_cannot_be(fields: dict[str, Any], code: str, param: str) -> None:
    error = refusal(**fields)
    assert (error.code, error.param) == (code, param)


@pytest.mark.contract("CHAT-3", "CHAT-4", "CHAT-38")
def test_roles_order_and_parts_are_kept() -> None:
    history = messages(
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "developer", "content": "D"},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": []},
    )
    assert [message.role for message in history] == ["system", "user", "developer", "assistant", "assistant", "user"]
    assert [message.text for message in history] == ["S", "ab", "D", "xno", "", ""]


@pytest.mark.contract("CHAT-4")
def test_blanks_around_a_text_are_part_of_it() -> None:
    """What an agent indents, or ends with a line feed, is read as it is, whole or in parts."""
    text = "\n  def f():\n\treturn 1\n\n"
    parts = [{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}]
    for role in ("system", "developer", "user", "assistant"):
        assert [messages({"role": role, "content": given})[0].text for given in (text, parts)] == [text, text]
    result = {"role": "tool", "tool_call_id": "c", "content": text}
    assert messages(USER, result)[1].text == text


@pytest.mark.contract("CHAT-3", "CHAT-17", "CHAT-31", "CHAT-40")
def test_history_of_tool_use() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": [2]}'}}
    history = messages(
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "name": "f", "content": [{"type": "text", "text": "12 C"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "g", "content": "done"},
    )
    assert history[1].tool_calls == (ToolCall(name="f", arguments={"b": 1, "a": [2]}, call_id="call_1"),)
    assert list(history[1].tool_calls[0].arguments) == ["b", "a"]
    assert (history[2].role, history[2].call_id, history[2].text) == ("tool", "call_1", "12 C")
    assert history[3].tool_calls == (ToolCall(name="g", arguments={}),)
    assert (history[4].role, history[4].call_id) == ("tool", None)


@pytest.mark.contract("CHAT-20", "IMPL-9")
def test_reasoning_of_earlier_turns() -> None:
    for fields in ({"reasoning": "r"}, {"reasoning_content": "r"}, {"reasoning": "r", "reasoning_content": "r"}):
        assert messages(USER, {"role": "assistant", "content": "a"} | fields)[1].reasoning == "r"
    error = refusal(messages=[USER, {"role": "assistant", "content": "a", "reasoning": "x", "reasoning_content": "y"}])
    assert error.code == "conflicting_template_option"


@pytest.mark.contract("CHAT-5", "CHAT-7")
def test_media_parts_are_lowered_unfetched() -> None:
    url = "https://example.com/a.png"
    parts = [
        {"type": "image_url", "image_url": {"url": url, "detail": "auto"}},
        {"type": "text", "text": "data:image/png;base64,AAAA"},
        {"type": "video_url", "video_url": url},
    ]
    content = messages({"role": "user", "content": parts})[0].content
    assert content == (
        MediaPart(modality="image", source=url),
        TextPart("data:image/png;base64,AAAA"),
        MediaPart(modality="video", source=url),
    )


@pytest.mark.contract("MEDIA-1", "CHAT-7")
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "source", [None, 3, "", "x", "ftp://a/b.png", "file:///etc/passwd", "http://", "http://[::1", "data:image/png,AA"]
)
def test_a_source_that_is_none_is_invalid_media(source: Any, wrapped: bool) -> None:
    for kind in ("image_url", "video_url"):
        part = {"type": kind, kind: {"url": source} if wrapped else source}
        error = refusal(messages=[{"role": "user", "content": [part]}])
        assert (error.code, error.param) == ("invalid_media", f"messages[0].content[0].{kind}")


BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"} | BREAK]}
TOOL = {"type": "function", "function": {"name": "f"}}


def marked(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} | BREAK for text in texts]}


@pytest.mark.contract("PCACHE-1", "PCACHE-2", "PCACHE-3", "PCACHE-4", "PCACHE-5", "PCACHE-8", "IMPL-18")
@pytest.mark.parametrize(
    ("history", "mode", "places"),
    [
        ([USER], None, [(0, 0, "automatic")]),
        ([USER], "implicit", [(0, 0, "automatic")]),
        ([USER], "explicit", []),
        ([marked("a"), USER], "explicit", [(0, 0, "explicit")]),
        ([marked("a", "b"), USER], None, [(0, 0, "explicit"), (0, 1, "explicit"), (1, 0, "automatic")]),
        ([USER, marked("a")], None, [(1, 0, "explicit")]),
        ([*map(marked, "abcdef")], "explicit", [(place, 0, "explicit") for place in (2, 3, 4, 5)]),
        ([*map(marked, "abcdef"), USER], None, [*((place, 0, "explicit") for place in (3, 4, 5)), (6, 0, "automatic")]),
        ([USER, ASSISTANT, RESULT], "explicit", [(2, 0, "explicit")]),
        ([USER, ASSISTANT], None, [(1, None, "automatic")]),
        ([{"role": "user", "content": ""}], None, [(None, 0, "automatic")]),
    ],
)
def test_cache_marks(history: list[Any], mode: str | None, places: list[Any]) -> None:
    options = None if mode is None else {"mode": mode, "ttl": "30m"}
    request = lowered(messages=history, tools=[TOOL], prompt_cache_options=options, prompt_cache_key="k")
    ttl = None if mode is None else "30m"
    assert request.cache_marks == tuple(
        CacheMark(message=message, part=part, evidence=evidence, ttl=ttl) for message, part, evidence in places
    )
    assert request.cache_session is None and not request.structural_marks


CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.contract("CHAT-32", "CHAT-35", "CHAT-23", "CHAT-6", "IMPL-10", "ERR-5")
@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"role": "robot", "content": "x"}, "messages[0].role", "unsupported_role"),
        ({"role": 3, "content": "x"}, "messages[0].role", "invalid_type"),
        ({"content": "x"}, "messages[0].role", "invalid_type"),
        ({"role": "user"}, "messages[0].content", "invalid_value"),
        ({"role": "user", "content": None}, "messages[0].content", "invalid_value"),
        ({"role": "user", "content": 3}, "messages[0].content", "invalid_type"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]", "invalid_type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text", "invalid_value"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type", "invalid_value"),
        (
            {"role": "user", "content": [{"type": "refusal", "refusal": "x"}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (
            {"role": "user", "content": [{"type": "input_audio"}]},
            "messages[0].content[0].type",
            "modality_not_supported",
        ),
        ({"role": "user", "content": [{"type": "file"}]}, "messages[0].content[0].type", "modality_not_supported"),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": "x"}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "low"}}]},
            "messages[0].content[0].image_url.detail",
            "image_detail_not_supported",
        ),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].image_url", "invalid_media"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "prompt_cache_breakpoint": True}]},
            "messages[0].content[0].prompt_cache_breakpoint",
            "invalid_cache_breakpoint",
        ),
        ({"role": "user", "name": "alice", "content": "x"}, "messages[0].name", "message_name_not_supported"),
        ({"role": "tool", "name": 3, "tool_call_id": "c", "content": "x"}, "messages[0].name", "invalid_type"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id", "invalid_value"),
        ({"role": "tool", "tool_call_id": "c"}, "messages[0].content", "invalid_value"),
        ({"role": "user", "tool_call_id": "c", "content": "x"}, "messages[0].tool_call_id", "invalid_value"),
        ({"role": "user", "tool_calls": [CALL], "content": "x"}, "messages[0].tool_calls", "invalid_value"),
        ({"role": "user", "reasoning": "r", "content": "x"}, "messages[0].reasoning", "invalid_value"),
        ({"role": "function", "content": "x"}, "messages[0].name", "invalid_value"),
        ({"role": "assistant", "audio": {"id": "a"}}, "messages[0].audio", "assistant_history_not_supported"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[0].tool_calls[0].function", "invalid_value"),
        (
            {"role": "assistant", "tool_calls": [CALL | {"type": "custom"}]},
            "messages[0].tool_calls[0].type",
            "tool_type_not_supported",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]},
            "messages[0].tool_calls[0].function.arguments",
            "invalid_value",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a":' * 500}}]},
            "messages[0].tool_calls[0].function.arguments",
            "invalid_value",
        ),
    ],
)
def test_a_malformed_message_is_named(message: dict[str, Any], param: str, code: str) -> None:
    error = refusal(messages=[message])
    assert (error.param, error.code) == (param, code)


def test_an_empty_history_breaks_the_prompt_contract() -> None:
    assert refusal(messages=[]).code == "invalid_prompt"


@pytest.mark.contract("CHAT-30")
def test_unknown_fields_are_ignored() -> None:
    assert lowered(some_new_field={"deep": [1, 2]}, ignore_eos=True, best_of=3) == lowered()
