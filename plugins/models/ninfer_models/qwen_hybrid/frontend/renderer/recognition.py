"""Decide at start whether the structure of an artifact's template is known (decision 20).

The dialect is read off the template; then every probe conversation must come out equal, byte for byte and control
token for control token. One difference, and the template alone renders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninfer_core.api import InvalidPrompt, Message, TemplateOptions
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile
from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens
from ninfer_models.qwen_hybrid.frontend.messages import template_message, template_tools
from ninfer_models.qwen_hybrid.frontend.renderer.battery import Probe, probes, without_a_question
from ninfer_models.qwen_hybrid.frontend.renderer.reading import (
    Unrecognised,
    option_variables,
    read_dialect,
    sent_options,
)
from ninfer_models.qwen_hybrid.frontend.renderer.structured import StructuredRenderer
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate, RenderedPrompt


@dataclass(frozen=True, slots=True)
class Recognition:
    """`reason` says why there is no renderer; empty where there is one."""

    renderer: StructuredRenderer | None
    reason: str


def recognise(template: ChatTemplate, profile: TemplateProfile, control: ControlTokens) -> Recognition:
    try:
        renderer = StructuredRenderer(read_dialect(template, profile), control)
        _compare(template, renderer, profile)
    except Unrecognised as difference:
        return Recognition(None, str(difference))
    return Recognition(renderer, "")


def _compare(template: ChatTemplate, renderer: StructuredRenderer, profile: TemplateProfile) -> None:
    everywhere = _all_options(profile)
    # Between them: thinking on and off, reasoning kept and dropped.
    two = list(dict.fromkeys((everywhere[0], everywhere[-1])))
    for probe in probes(media=renderer.dialect.media):
        for options in everywhere if probe.everywhere else two:
            _compare_one(template, renderer, probe, options)
    for messages in without_a_question():
        if not (_refuses(template, messages, two[0]) and _structured_refuses(renderer, messages, two[0])):
            raise Unrecognised("it accepts a conversation in which no user asks anything")


def _all_options(profile: TemplateProfile) -> list[TemplateOptions]:
    preserving = (True, False) if profile.capabilities.preserve_thinking else (None,)
    return [
        TemplateOptions(
            enable_thinking=options.enable_thinking,
            reasoning_effort=options.reasoning_effort,
            preserve_thinking=preserve,
        )
        for options in sent_options(profile)
        for preserve in preserving
    ]


def _compare_one(template: ChatTemplate, renderer: StructuredRenderer, probe: Probe, options: TemplateOptions) -> None:
    try:
        expected = _by_template(template, probe, options)
        rendering = renderer.render(probe.messages, probe.tools, options)
    except InvalidPrompt as refusal:
        raise Unrecognised(f"a probe conversation is refused: {refusal.message}") from refusal
    if rendering.text != expected.text:
        raise Unrecognised(
            f"a probe conversation comes out differently at {_difference(rendering.text, expected.text)}"
        )
    if rendering.pieces != expected.pieces:
        raise Unrecognised("it writes a control token where its structure has text, or the reverse")


def _by_template(template: ChatTemplate, probe: Probe, options: TemplateOptions) -> RenderedPrompt:
    return template.render(
        {
            "messages": [template_message(message) for message in probe.messages],
            "tools": template_tools(probe.tools),
            "add_generation_prompt": True,
            **option_variables(options),
        }
    )


def _refuses(template: ChatTemplate, messages: Sequence[Message], options: TemplateOptions) -> bool:
    try:
        _by_template(template, Probe(tuple(messages)), options)
    except InvalidPrompt:
        return True
    return False


def _structured_refuses(renderer: StructuredRenderer, messages: Sequence[Message], options: TemplateOptions) -> bool:
    try:
        renderer.render(messages, (), options)
    except InvalidPrompt:
        return True
    return False


def _difference(ours: str, theirs: str) -> str:
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((place for place, (our, their) in pairs if our != their), min(len(ours), len(theirs)))
    around = slice(max(place - 20, 0), place + 20)
    return f"character {place}: {theirs[around]!r}, expected {ours[around]!r}"
