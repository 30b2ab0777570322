"""Read the dialect off an artifact's own template: render small conversations and look where things stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninfer_core.api import InvalidPrompt, TemplateOptions
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile
from ninfer_models.qwen_hybrid.frontend.renderer.dialect import Dialect
from ninfer_models.qwen_hybrid.frontend.renderer.layout import (
    ASSISTANT_OPEN,
    PARAGRAPH,
    SYSTEM_OPEN,
    TOOL_LINE,
    TURN_CLOSE,
    USER_OPEN,
)
from ninfer_models.qwen_hybrid.frontend.renderer.segments import (
    MEDIA_CLOSE,
    MEDIA_OPEN,
    MEDIA_PADS,
    Segment,
    piece_segments,
)
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate, RenderedPrompt, json_text
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, Piece

_QUESTION = "probe-question"
_USER = {"role": "user", "content": _QUESTION}
_USER_TURN = f"{USER_OPEN}{_QUESTION}{TURN_CLOSE}"
_TOOL = {"type": "function", "function": {"name": "probe-tool", "description": "probe", "parameters": {}}}

Rendered = Mapping[tuple[bool | None, str | None], RenderedPrompt]


class Unrecognised(Exception):
    """The template is not of the known structure; the text says where it differs."""


def sent_options(profile: TemplateProfile) -> list[TemplateOptions]:
    """Every (enable_thinking, reasoning_effort) that a template of this profile is ever given."""
    capabilities = profile.capabilities
    if capabilities.thinking_toggle:
        efforts = [None, *capabilities.efforts]
        on = [TemplateOptions(enable_thinking=True, reasoning_effort=effort) for effort in efforts]
        return [*on, TemplateOptions(enable_thinking=False)]
    efforts = [None, *(capabilities.efforts if profile.always_thinks else ())]
    return [TemplateOptions(reasoning_effort=effort) for effort in efforts]


def option_variables(options: TemplateOptions) -> dict[str, Any]:
    """The template variables of options that are set."""
    named = {name: getattr(options, name) for name in TemplateOptions.__struct_fields__}
    return {name: value for name, value in named.items() if value is not None}


def read_dialect(template: ChatTemplate, profile: TemplateProfile) -> Dialect:
    """Raises Unrecognised when what is looked for is not where the family's structure has it."""
    return _Reading(template, profile).dialect()


class _Reading:
    def __init__(self, template: ChatTemplate, profile: TemplateProfile) -> None:
        self._template = template
        self._profile = profile
        self._options = sent_options(profile)

    def dialect(self) -> Dialect:
        if not self._profile.capabilities.tools:
            raise Unrecognised("it writes no tools")
        if "strftime_now" in self._template.variables:
            raise Unrecognised("it writes the date, which is not the same tomorrow")
        preambles: dict[tuple[bool | None, str | None], tuple[Segment, ...]] = {}
        prologues: dict[bool | None, tuple[Segment, ...]] = {}
        for options in self._options:
            preamble, prologue = self._around_the_question(options)
            preambles[options.enable_thinking, options.reasoning_effort] = preamble
            if prologues.setdefault(options.enable_thinking, prologue) != prologue:
                raise Unrecognised("the effort changes how the new turn begins")
        # The options with the shortest preamble show the rest most plainly.
        plain = min(self._options, key=lambda each: len(preambles[each.enable_thinking, each.reasoning_effort]))
        head, foot = self._around_the_tools(plain, preambles[plain.enable_thinking, plain.reasoning_effort])
        return Dialect(
            preambles=preambles,
            tools_head=head,
            tools_foot=foot,
            prologues=prologues,
            keeps_empty_system_turn=self._keeps_empty_system_turn(plain),
            reasoning_in_content=self._reads_reasoning_in_content(plain),
            preserves=self._profile.always_preserves,
            scalars="python" if self._writes_true_in_python(plain) else "json",
            media=self._has_media(plain),
            no_question=self._refusal_without_a_question(plain),
        )

    def _around_the_question(self, options: TemplateOptions) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        rendered = self._render([_USER], options)
        before, found, after = rendered.text.partition(_USER_TURN)
        if not found:
            raise Unrecognised("a question is not written as a ChatML turn")
        if not after.startswith(ASSISTANT_OPEN):
            raise Unrecognised("a question is not followed by an assistant turn")
        if not before:
            return (), _cut(rendered.pieces, len(_USER_TURN), len(rendered.text))
        inside = _inside_system_turn(before)
        preamble = _cut(rendered.pieces, len(SYSTEM_OPEN), len(SYSTEM_OPEN) + len(inside))
        return preamble, _cut(rendered.pieces, len(before) + len(_USER_TURN), len(rendered.text))

    def _around_the_tools(
        self, options: TemplateOptions, preamble: Sequence[Segment]
    ) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        rendered = self._render([_USER], options, tools=[_TOOL])
        inside = _inside_system_turn(rendered.text.partition(_USER_TURN)[0])
        opening = "".join(segment.text for segment in preamble) + PARAGRAPH if preamble else ""
        head, found, _ = inside.partition(TOOL_LINE + json_text(_TOOL))
        if not found or not head.startswith(opening):
            raise Unrecognised("a tool is not written as a line of JSON in the system turn")
        start = len(SYSTEM_OPEN) + len(opening)
        end = len(SYSTEM_OPEN) + len(head)
        foot = end + len(found)
        return _cut(rendered.pieces, start, end), _cut(rendered.pieces, foot, len(SYSTEM_OPEN) + len(inside))

    def _keeps_empty_system_turn(self, options: TemplateOptions) -> bool:
        text = self._render([{"role": "system", "content": ""}, _USER], options).text
        return text.startswith(SYSTEM_OPEN + TURN_CLOSE)

    def _reads_reasoning_in_content(self, options: TemplateOptions) -> bool:
        answer = "<think>\nprobe-thought\n</think>\n\nprobe-said"
        text = self._render([_USER, {"role": "assistant", "content": answer}], options).text
        return f"</think>\n\n{answer}" not in text

    def _writes_true_in_python(self, options: TemplateOptions) -> bool:
        call = {"type": "function", "function": {"name": "probe-call", "arguments": {"probe-key": True}}}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        return "\nTrue\n" in self._render([_USER, turn], options).text

    def _has_media(self, options: TemplateOptions) -> bool:
        content = [{"type": "text", "text": _QUESTION}, *({"type": modality} for modality in MEDIA_PADS)]
        try:
            text = self._render([{"role": "user", "content": content}], options).text
        except Unrecognised:
            return False
        return "".join(MEDIA_OPEN + pad + MEDIA_CLOSE for pad in MEDIA_PADS.values()) in text

    def _refusal_without_a_question(self, options: TemplateOptions) -> str:
        variables = {"tools": None, "add_generation_prompt": True, **option_variables(options)}
        try:
            self._template.render({"messages": [{"role": "assistant", "content": "probe-said"}], **variables})
        except InvalidPrompt as refusal:
            return refusal.message
        raise Unrecognised("it accepts a conversation in which no user asks anything")

    def _render(self, messages: list[dict[str, Any]], options: TemplateOptions, **more: Any) -> RenderedPrompt:
        variables = {"messages": messages, "tools": None, "add_generation_prompt": True, **option_variables(options)}
        try:
            return self._template.render(variables | more)
        except InvalidPrompt as refusal:
            raise Unrecognised(f"it refuses a plain conversation: {refusal.message}") from refusal


def _inside_system_turn(text: str) -> str:
    if not (text.startswith(SYSTEM_OPEN) and text.endswith(TURN_CLOSE)):
        raise Unrecognised("what stands before the first question is not one ChatML system turn")
    return text[len(SYSTEM_OPEN) : -len(TURN_CLOSE)]


def _cut(pieces: Sequence[Piece], start: int, end: int) -> tuple[Segment, ...]:
    """Characters `start` to `end` of a rendering, as the template's own segments."""
    kept: list[Piece] = []
    offset = 0
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.text
        low, high = max(start - offset, 0), min(end - offset, len(text))
        offset += len(text)
        if low >= high:
            continue
        if isinstance(piece, Control) and (low, high) != (0, len(text)):
            raise Unrecognised(f"the control token {text!r} stands across two parts of its structure")
        kept.append(piece if isinstance(piece, Control) else text[low:high])
    return piece_segments(kept)
