"""What is read off a template may be anything; what is structure has to be exactly that of the family."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.messages import template_message, template_tools
from ninfer_models.qwen_hybrid.frontend.renderer.reading import option_variables

from ninfer_core.api import (
    GenerationRequest,
    InvalidPrompt,
    MediaPart,
    Message,
    TemplateOptions,
    TextPart,
    ThinkingDefaults,
)

SENTENCES = {
    "tiny": (
        *("Think step by step", "Think in one line", "These functions can", "To call one", "first value"),
        *("several", "Keep to these", "Give every", "Explanations go", "do not mention", "# Tools"),
    ),
    "3.8": (
        *("Go through every", "few words of", "may be called", "without anything", "a value", "on two lines"),
        *("Remember", "one block", "parameters are given", "not after", "or just answer"),
    ),
    "3.6": ("at your service", "Call one like", "a_name", "nothing after it", "# Tools"),
}


def changed(template: bytes, old: str, new: str) -> str:
    text = template.decode()
    assert old in text
    return text.replace(old, new)


def assert_equal_to_jinja(known: Any, generator: Callable[..., Any], count: int = 150) -> None:
    capabilities = known.profile.capabilities
    choose = random.Random(count)
    for seed in range(count):
        request = generator(seed).request()
        thinking = choose.random() < 0.5 if capabilities.thinking_toggle else None
        options = TemplateOptions(
            enable_thinking=thinking,
            preserve_thinking=choose.random() < 0.5 if capabilities.preserve_thinking else None,
            reasoning_effort=choose.choice((None, *capabilities.efforts)) if thinking else None,
        )
        variables = {
            "messages": [template_message(message) for message in request.messages],
            "tools": template_tools(request.tools),
            "add_generation_prompt": True,
            **option_variables(options),
        }
        try:
            expected = known.template.render(variables)
        except InvalidPrompt:
            continue
        rendering = known.renderer.render(request.messages, request.tools, options)
        assert (rendering.text, rendering.pieces) == (expected.text, expected.pieces)


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize("style", SENTENCES)
def test_the_known_styles_are_recognised(style: str, known: Callable[[str], Any], frontend_of: Any) -> None:
    assert known(style).found.reason == ""
    assert frontend_of(style).capabilities.renderer == "structured"


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize(("style", "words"), [(style, words) for style in SENTENCES for words in SENTENCES[style]])
def test_a_byte_changed_in_a_sentence_is_read_off(
    style: str, words: str, templates: dict[str, bytes], known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    place = len(words) // 2
    other = known(changed(templates[style], words, f"{words[:place]}#{words[place + 1 :]}"))
    assert other.found.reason == ""
    assert_equal_to_jinja(other, generator, 30)


def test_sentences_may_hold_control_tokens_line_feeds_and_anything(
    templates: dict[str, bytes], known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    text = changed(templates["3.8"], "Go through", "<think> <|im_end|>\\n<|im_start|>system\\n\\n ÄÖ {x} Go through")
    text = text.replace("- one block", "</think>\\n<tools>\\n- one block")
    assert_equal_to_jinja(known(text), generator)


SCALARS = (
    "{{- value if value is string else value | tojson }}",
    "{{- value | tojson if value is mapping or (value is sequence and value is not string) else value | string }}",
)
NO_MEDIA = ("'<|vision_start|><|image_pad|><|vision_end|>'", "raise_exception('text only')")
VARIANTS = {
    "scalars in Python's words": [SCALARS],
    "no preserve_thinking": [
        ("(preserve_thinking is defined and preserve_thinking is true) or loop.index0", "loop.index0")
    ],
    "thinking cannot be switched off": [
        ("{%- if not messages %}", "{%- if enable_thinking is false %}{{ raise_exception('no') }}{% endif %}{% if 0 %}")
    ],
    "never thinks by itself": [
        ("{%- if enable_thinking is defined and enable_thinking is false %}", "{%- if enable_thinking is not true %}")
    ],
    "text only": [NO_MEDIA],
    "empty system turn left out": [
        (
            "{%- elif messages[0].role == 'system' %}",
            "{%- elif messages[0].role == 'system' and messages[0].content | trim %}",
        )
    ],
    "reasoning in its field only": [("{%- elif '</think>' in content %}", "{%- elif false %}")],
}


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize("name", VARIANTS)
def test_differences_that_the_family_knows_are_data(
    name: str, templates: dict[str, bytes], known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    text = templates["3.6"]
    for old, new in VARIANTS[name]:
        text = changed(text, old, new).encode()
    variant, plain = known(text.decode()), known("3.6")
    assert variant.found.reason == ""
    assert (variant.renderer.dialect, variant.profile) != (plain.renderer.dialect, plain.profile)
    assert_equal_to_jinja(variant, generator)


STRUCTURES = {
    "no line feed before a result": ("'\\n<tool_response>\\n'", "'<tool_response>\\n'"),
    "one line feed before a call": ("'\\n\\n<tool_call>\\n<function='", "'\\n<tool_call>\\n<function='"),
    "another role": ("'<|im_start|>' + message.role + '\\n' + content", "'<|im_start|>human\\n' + content"),
    "contents not stripped": ("content = flat(message.content) | trim", "content = flat(message.content)"),
    "thought not stripped": ("{%- set thought = thought | trim %}", ""),
    "reasoning of the open turn dropped": ("loop.index0 > search.last", "loop.index0 > search.last + 1"),
    "a greeting": ("{%- if add_generation_prompt %}", "{{- 'Hi.' }}{%- if add_generation_prompt %}"),
    "the date in a sentence": ("Functions are at your service:", "On ' ~ strftime_now('%Y') ~ ':"),
    "tools numbered": ("{{- '\\n' }}\n        {{- tool | tojson }}", "{{- '\\n' ~ loop.index ~ tool | tojson }}"),
    "arguments in one object": ("{{- '<parameter=' + key + '>\\n' }}", "{{- '<argument=' + key + '>\\n' }}"),
    "every user message is a question": ("asked.startswith('<tool_response>')", "asked.startswith('<tool_result>')"),
    "no question needed": ("{%- if search.open %}", "{%- if false %}"),
    "results in their own role": ("{{- '<|im_start|>user' }}", "{{- '<|im_start|>tool' }}"),
    "a word for very long conversations": (
        "{%- if add_generation_prompt %}",
        "{{- '!' if messages | length > 4 }}{%- if add_generation_prompt %}",
    ),
}  # fmt: skip


@pytest.mark.contract("TMPL-1")
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_changed_structure_is_left_to_jinja(
    name: str, templates: dict[str, bytes], frontend_of: Any, known: Callable[[str], Any]
) -> None:
    text = changed(templates["3.6"], *STRUCTURES[name])
    other = known(text)
    assert other.found.renderer is None and other.found.reason
    frontend = frontend_of(text)
    assert frontend.capabilities.renderer == "jinja"
    assert frontend.capabilities.renderer_reason == other.found.reason
    request = GenerationRequest(messages=(say("user", "q"), say("assistant", "a"), say("user", "more")))
    prepared = frontend.prepare(request, ThinkingDefaults())
    variables = {"enable_thinking": True, "preserve_thinking": False, "add_generation_prompt": True}
    messages = [template_message(message) for message in request.messages]
    assert prepared.text == other.template.render({"messages": messages, "tools": None, **variables}).text
    assert prepared.frontiers == ()


def say(role: Any, *texts: str) -> Message:
    return Message(role=role, content=tuple(TextPart(text) for text in texts))


def test_what_jinja_alone_cannot_do_is_refused_by_name(templates: dict[str, bytes], frontend_of: Any) -> None:
    frontend = frontend_of(changed(templates["3.6"], *STRUCTURES["another role"]))
    later = GenerationRequest(messages=(say("user", "q"), say("developer", "now"), say("user", "q")))
    with pytest.raises(InvalidPrompt, match=r"messages\[1\] is a developer message") as caught:
        frontend.prepare(later, ThinkingDefaults())
    assert caught.value.code == "invalid_prompt"
    final = GenerationRequest(messages=(say("user", "q"), say("assistant", "I")), continue_final=True)
    with pytest.raises(InvalidPrompt, match="a question is not written as a ChatML turn"):
        frontend.prepare(final, ThinkingDefaults(enable_thinking=False))


def test_a_text_only_template_refuses_media_by_name(templates: dict[str, bytes], known: Callable[[str], Any]) -> None:
    picture = Message(role="user", content=(MediaPart(modality="image", source="data:,"),))
    options = TemplateOptions(enable_thinking=True, preserve_thinking=True)
    with pytest.raises(InvalidPrompt, match=r"messages\[0\] has an image or a video"):
        known(changed(templates["3.6"], *NO_MEDIA)).renderer.render((picture,), (), options)
