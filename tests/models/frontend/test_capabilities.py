"""What a template can do is read off its own renderings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ninfer_models.qwen_hybrid.frontend import QwenFrontend

from ninfer_core.api import (
    ArtifactInvalid,
    GenerationRequest,
    InvalidPrompt,
    Message,
    TemplateOptions,
    TextPart,
    ThinkingDefaults,
)

FrontendOf = Callable[..., QwenFrontend]

TURNS = (
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}"
    "{% if m.reasoning_content %}{{ '<think>\n' ~ m.reasoning_content ~ '\n</think>\n\n' }}{% endif %}"
    "{{ m.content ~ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
NO_THINKING = TURNS.replace("{% if m.reasoning_content %}", "{% if false %}")
OFF_BY_DEFAULT = TURNS + "{{ '<think>\n' if enable_thinking is true else '<think>\n\n</think>\n\n' }}"
ALWAYS_THINKS = (
    TURNS + "{% if enable_thinking is false %}{{ raise_exception('it must think') }}{% endif %}{{ '<think>\n' }}"
)
LENIENT_EFFORT = ALWAYS_THINKS + "{{ {'low': 'Be brief.\n', 'xhigh': 'Be thorough.\n'}.get(reasoning_effort, '') }}"
ECHOED_EFFORT = "{{ 'effort ' ~ (reasoning_effort or 'high') ~ '\n' }}" + ALWAYS_THINKS


def question() -> GenerationRequest:
    return GenerationRequest(messages=(Message(role="user", content=(TextPart("q"),)),))


@pytest.mark.contract("TMPL-1", "TMPL-2")
def test_the_two_known_styles(frontend_of: FrontendOf) -> None:
    ours, older = frontend_of("3.8").capabilities, frontend_of("3.6").capabilities
    assert ours.thinking_toggle and ours.preserve_thinking and ours.tools
    assert ours.efforts == ("low", "medium", "xhigh")
    assert ours.default_effort == "xhigh"
    assert older.thinking_toggle and older.preserve_thinking and older.tools
    assert older.efforts == ()
    assert older.default_effort is None


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize(
    ("template", "toggle", "always_thinks", "efforts", "default"),
    [
        (NO_THINKING, False, False, (), None),
        (OFF_BY_DEFAULT, True, False, (), None),
        (ALWAYS_THINKS, False, True, (), None),
        (LENIENT_EFFORT, False, True, ("low", "xhigh"), None),
        (ECHOED_EFFORT, False, True, ("minimal", "low", "medium", "high", "xhigh", "max"), "high"),
    ],
    ids=["no thinking", "off by default", "always thinks", "lenient effort", "echoed effort"],
)
def test_odd_templates(
    template: str,
    toggle: bool,
    always_thinks: bool,
    efforts: tuple[str, ...],
    default: str | None,
    frontend_of: FrontendOf,
) -> None:
    frontend = frontend_of(template)
    assert frontend.capabilities.thinking_toggle is toggle
    assert frontend._profile.always_thinks is always_thinks
    assert frontend.capabilities.efforts == efforts
    assert frontend.capabilities.default_effort == default
    assert not frontend.capabilities.tools
    assert not frontend.capabilities.preserve_thinking
    assert frontend._profile.system_anywhere


@pytest.mark.parametrize(
    ("template", "channels"),
    [
        (NO_THINKING, ("content", "content")),
        (OFF_BY_DEFAULT, ("reasoning", "content")),
        (ALWAYS_THINKS, ("reasoning", "reasoning")),
    ],
)
def test_the_initial_channel_is_what_the_prompt_leaves_open(
    template: str, channels: tuple[str, str], frontend_of: FrontendOf
) -> None:
    frontend = frontend_of(template)
    assert channels == tuple(
        frontend.prepare(question(), ThinkingDefaults(enable_thinking=on)).initial_channel for on in (True, False)
    )


def test_a_think_tag_in_the_question_opens_nothing(frontend_of: FrontendOf) -> None:
    request = GenerationRequest(messages=(Message(role="user", content=(TextPart("<think>\n"),)),))
    assert frontend_of(NO_THINKING).prepare(request, ThinkingDefaults()).initial_channel == "content"


@pytest.mark.contract("CHAT-38")
def test_system_turns_stand_where_they_were_sent_if_the_template_can(frontend_of: FrontendOf) -> None:
    roles = ("system", "developer", "user", "developer", "user")
    messages = tuple(Message(role=role, content=(TextPart(f"text{place}"),)) for place, role in enumerate(roles))
    text = frontend_of(NO_THINKING).prepare(GenerationRequest(messages=messages), ThinkingDefaults()).text
    assert text.startswith(
        "<|im_start|>system\ntext0<|im_end|>\n<|im_start|>system\ntext1<|im_end|>\n<|im_start|>user\ntext2<|im_end|>\n"
        "<|im_start|>system\ntext3<|im_end|>\n"
    )


def test_control_tokens_built_from_parts_end_the_start(frontend_of: FrontendOf) -> None:
    built = "{% for m in messages %}{{ '<|im_' ~ 'start|>' ~ m.role ~ '\n' ~ m.content }}{% endfor %}"
    with pytest.raises(ArtifactInvalid, match="out of parts"):
        frontend_of(built)


def test_a_template_that_decides_by_its_own_control_tokens_ends_the_start(frontend_of: FrontendOf) -> None:
    deciding = (
        "{% set tag = '<think>' %}{% set full = tag ~ messages[0].content %}"
        "{{ '<|im_start|>' ~ (full[7:] if full.startswith('<think>') else full) }}"
    )
    with pytest.raises(ArtifactInvalid, match="cannot be told"):
        frontend_of(deciding)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% if %}", "not a Jinja template"),
        ("{{ raise_exception('not today') }}", "not today"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        (
            "{% for i in range(9999) %}{% for j in range(9999) %}{{ 'xxxxxxxx' * 128 }}{% endfor %}{% endfor %}",
            "over",
        ),
    ],
    ids=["syntax", "refuses", "escapes the sandbox", "writes without end"],
)
def test_templates_that_cannot_be_used_end_the_start(template: str, reason: str, frontend_of: FrontendOf) -> None:
    with pytest.raises(ArtifactInvalid, match=reason):
        frontend_of(template)


def test_special_token_variables_are_the_templates_own(frontend_of: FrontendOf) -> None:
    frontend = frontend_of("{{ '<|im_start|>user\n' ~ messages[0].content ~ eos_token ~ strftime_now('%Y') }}")
    request = GenerationRequest(messages=(Message(role="user", content=(TextPart("<|im_end|>"),)),))
    prepared = frontend.prepare(request, ThinkingDefaults())
    assert prepared.text.startswith("<|im_start|>user\n<|im_end|><|im_end|>2")
    assert prepared.token_ids.count(frontend.stop_token_ids[0]) == 1


@pytest.mark.contract("TMPL-6")
def test_preserve_thinking_decides_about_closed_turns(frontend_of: FrontendOf) -> None:
    turns = (
        Message(role="user", content=(TextPart("q1"),)),
        Message(role="assistant", content=(TextPart("a1"),), reasoning="secret thought"),
        Message(role="user", content=(TextPart("q2"),)),
    )
    for style in ("3.8", "3.6"):
        frontend = frontend_of(style)
        kept = GenerationRequest(messages=turns, template=TemplateOptions(preserve_thinking=True))
        silent = GenerationRequest(messages=turns)
        assert "secret thought" in frontend.prepare(kept, ThinkingDefaults()).text
        assert "secret thought" not in frontend.prepare(silent, ThinkingDefaults()).text
        assert "secret thought" in frontend.prepare(silent, ThinkingDefaults(preserve_thinking=True)).text


def test_a_refusal_does_not_show_the_mark(frontend_of: FrontendOf) -> None:
    refusing = TURNS + "{% if messages | length > 3 %}{{ raise_exception('too many <think>') }}{% endif %}"
    messages = question().messages * 4
    with pytest.raises(InvalidPrompt, match=r"too many <think>$"):
        frontend_of(refusing).prepare(GenerationRequest(messages=messages), ThinkingDefaults())


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize("template", ["", " \n", "{{ '<|im_start|>assistant\n' }}"])
def test_a_template_that_shows_no_message_is_refused(frontend_of: FrontendOf, template: str) -> None:
    with pytest.raises(ArtifactInvalid, match="it writes nothing of a user message"):
        frontend_of(template)
