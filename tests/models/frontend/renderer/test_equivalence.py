"""On thousands of conversations the structured renderer writes what the artifact's own Jinja writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.messages import template_message, template_tools
from ninfer_models.qwen_hybrid.frontend.renderer.reading import option_variables

from ninfer_core.api import GenerationRequest, InvalidPrompt, Message, TemplateOptions, TextPart

STYLES = ("tiny", "3.8", "3.6")
COUNT = 2000


def jinja(known: Any, request: GenerationRequest, options: TemplateOptions) -> Any:
    """(text, pieces), or the refusal."""
    variables = {
        "messages": [template_message(message) for message in request.messages],
        "tools": template_tools(request.tools),
        "add_generation_prompt": True,
        **option_variables(options),
    }
    try:
        rendered = known.template.render(variables)
    except InvalidPrompt as refusal:
        return refusal.message
    return rendered.text, rendered.pieces


def structured(known: Any, request: GenerationRequest, options: TemplateOptions) -> Any:
    try:
        rendering = known.renderer.render(request.messages, request.tools, options)
    except InvalidPrompt as refusal:
        return refusal.message
    return rendering.text, rendering.pieces


def is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def options_of(known: Any, request: GenerationRequest, choose: random.Random) -> TemplateOptions:
    capabilities = known.profile.capabilities
    thinking = request.template.enable_thinking is not False
    return TemplateOptions(
        enable_thinking=thinking,
        preserve_thinking=choose.random() < 0.5,
        reasoning_effort=choose.choice((None, *capabilities.efforts)) if thinking else None,
    )


@pytest.mark.contract("TMPL-1", "CHAT-4", "CHAT-39", "CHAT-40")
@pytest.mark.parametrize("style", STYLES)
def test_bytes_and_control_tokens_are_those_of_jinja(
    style: str, known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    template, choose = known(style), random.Random(style)
    refused = 0
    for seed in range(COUNT):
        request = generator(seed).request()
        options = options_of(template, request, choose)
        expected = jinja(template, request, options)
        assert structured(template, request, options) == expected, f"seed {seed}, {options}"
        refused += isinstance(expected, str)
    # Conversations whose only question looks like a tool's result are among them.
    assert 0 < refused < COUNT / 10


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_bytes_are_those_of_jinja_on_many_more(
    style: str, known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    template, choose = known(style), random.Random(style)
    for seed in range(COUNT, 6 * COUNT):
        request = generator(seed).request()
        options = options_of(template, request, choose)
        assert structured(template, request, options) == jinja(template, request, options), f"seed {seed}, {options}"


@pytest.mark.contract("CHAT-38")
@pytest.mark.parametrize("style", STYLES)
def test_system_turns_taken_out_leave_what_jinja_writes(
    style: str, known: Callable[[str], Any], generator: Callable[..., Any]
) -> None:
    """Each later system-class message is one ChatML block in its place, and changes nothing else."""
    template = known(style)
    options = TemplateOptions(enable_thinking=False, preserve_thinking=True)
    compared = 0
    for seed in range(300):
        request = generator(seed, spiked=False, free=True).request()
        messages = tuple(
            Message(role=each.role, content=(TextPart(f" instruction {place}\n"),))
            if place and is_system(each)
            else each
            for place, each in enumerate(request.messages)
        )
        later = [place for place, each in enumerate(messages) if place and is_system(each)]
        # Taking a system message from between two tool results would join their turns.
        neighbours = {each.role for place in later for each in (messages[place - 1], *messages[place + 1 : place + 2])}
        if not later or neighbours & {"tool", "system", "developer"}:
            continue
        text, _ = structured(template, GenerationRequest(messages=messages, tools=request.tools), options)
        for place in later:
            block = f"<|im_start|>system\ninstruction {place}<|im_end|>\n"
            assert text.count(block) == 1
            text = text.replace(block, "")
        kept = tuple(each for place, each in enumerate(messages) if not place or not is_system(each))
        assert text == jinja(template, GenerationRequest(messages=kept, tools=request.tools), options)[0]
        compared += 1
    assert compared > 50
