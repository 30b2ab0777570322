"""The chat template: layout, thinking, effort, tools, and the mistakes it refuses."""

from __future__ import annotations

import pytest
from jinja2 import Template
from jinja2.exceptions import TemplateError

from tools.tiny_model.template import Message, load_template, render

USER = {"role": "user", "content": " hi "}
PROLOGUE = "<|im_start|>assistant\n<think>\n"


@pytest.fixture(scope="module")
def template() -> Template:
    return load_template()


def test_default_is_thinking_at_the_highest_effort(template: Template) -> None:
    text = render(template, [USER], {}, prompt=True)
    assert text.startswith("<|im_start|>system\nEffort: xhigh.")
    assert text.endswith(f"<|im_start|>user\nhi<|im_end|>\n{PROLOGUE}")
    assert render(template, [USER], {"reasoning_effort": "xhigh"}, prompt=True) == text


def test_medium_effort_and_no_thinking_add_no_system_turn(template: Template) -> None:
    user = "<|im_start|>user\nhi<|im_end|>\n"
    assert render(template, [USER], {"reasoning_effort": "medium"}, prompt=True) == user + PROLOGUE
    closed = render(template, [USER], {"enable_thinking": False, "reasoning_effort": "high"}, prompt=True)
    assert closed == f"{user}{PROLOGUE}\n</think>\n\n"


def test_effort_comes_before_tools_and_tools_before_the_own_text(template: Template) -> None:
    tool = {"type": "function", "function": {"name": "now", "description": "a <b> & 'c' é"}}
    messages: list[Message] = [{"role": "system", "content": "Be kind."}, USER]
    text = render(template, messages, {"tools": [tool], "reasoning_effort": "low"}, prompt=False)
    places = [
        text.index(part) for part in ("Effort: low.", "# Tools", "<tools>\n{", "</IMPORTANT>\n\nBe kind.<|im_end|>")
    ]
    assert places == sorted(places)
    assert """{"type": "function", "function": {"name": "now", "description": "a <b> & 'c' é"}}""" in text


def test_history_keeps_thinking_unless_told_not_to(template: Template) -> None:
    old = {"role": "assistant", "content": "yes", "reasoning_content": " because "}
    kept = render(template, [USER, old, USER], {}, prompt=True)
    assert "<think>\nbecause\n</think>\n\nyes<|im_end|>" in kept
    stripped = render(template, [USER, old, USER], {"preserve_thinking": False}, prompt=True)
    assert "<|im_start|>assistant\nyes<|im_end|>" in stripped
    # After the last question it stays in any case: a tool loop is one thought.
    assert "because" in render(template, [USER, old], {"preserve_thinking": False}, prompt=False)


def test_tool_calls_and_results(template: Template) -> None:
    call = {"function": {"name": "add", "arguments": {"a": 1, "note": "two\nlines"}}}
    messages: list[Message] = [
        USER,
        {"role": "assistant", "content": "Wait.", "tool_calls": [call, call]},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4"},
    ]
    text = render(template, messages, {}, prompt=True)
    one = (
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
        "<parameter=note>\ntwo\nlines\n</parameter>\n</function>\n</tool_call>"
    )
    assert f"</think>\n\nWait.\n\n{one}\n{one}<|im_end|>\n" in text
    results = "<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response><|im_end|>\n"
    assert f"<|im_start|>user\n{results}{PROLOGUE}" in text


def test_pictures_become_placeholders(template: Template) -> None:
    content = [{"type": "text", "text": "see "}, {"type": "image"}, {"type": "video"}]
    text = render(template, [{"role": "user", "content": content}], {"add_vision_id": True}, prompt=False)
    assert "see Picture 1: <|vision_start|><|image_pad|><|vision_end|>Video 1: <|vision_start|><|video_pad|>" in text


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([], {}),
        ([USER], {"reasoning_effort": "high"}),
        ([USER], {"reasoning_effort": None}),
        ([USER, {"role": "system", "content": "late"}], {}),
        ([{"role": "system", "content": [{"type": "image"}]}, USER], {}),
        ([{"role": "robot", "content": "x"}, USER], {}),
        ([{"role": "user", "content": [{"type": "sound"}]}], {}),
        ([{"role": "user", "content": "<tool_response>\nx\n</tool_response>"}], {}),
        ([{"role": "assistant", "content": "x"}], {}),
    ],
)
def test_mistakes_are_refused(template: Template, messages: list[Message], options: dict[str, object]) -> None:
    with pytest.raises(TemplateError):
        render(template, messages, options, prompt=True)
