"""Find out what a chat template can do by rendering small conversations with it (contract TMPL-1).

Nothing is read from model names. An option counts when turning it changes what is written, in the way it should.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ninfer_core.api import EFFORTS, ArtifactInvalid, Channel, InvalidPrompt, TemplateCapabilities
from ninfer_models.qwen_hybrid.frontend.control_tokens import THINK_CLOSE, THINK_OPEN, TURN_OPEN
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate, RenderedPrompt
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control

_UNKNOWN_EFFORT = "probe-unknown"
_USER: dict[str, Any] = {"role": "user", "content": "probe-question"}
_REASONED = {"role": "assistant", "content": "probe-answer", "reasoning_content": "probe-reasoning"}
_AGAIN = {"role": "user", "content": "probe-more"}
_CALL = {"type": "function", "id": None, "function": {"name": "probe-call", "arguments": {"probe-key": "probe-value"}}}
_TOOL = {
    "type": "function",
    "function": {"name": "probe-tool", "description": "probe", "parameters": {"type": "object", "properties": {}}},
}
_TOOL_TURNS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "content": "probe-result"},
]
_SYSTEM = {"role": "system", "content": "probe-system"}


class TemplateProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The public capabilities, and what holds where an option is not exposed.

    `always_thinks` and `always_preserves` say what the template does when nothing is said. `system_anywhere`: a
    system turn may stand at any place, and there may be several.
    """

    capabilities: TemplateCapabilities
    always_thinks: bool
    always_preserves: bool
    system_anywhere: bool


def opened_channel(rendered: RenderedPrompt) -> Channel:
    """Where the model's first token goes: inside a thinking block that the prompt leaves open, or the answer."""
    for piece in reversed(rendered.pieces):
        if isinstance(piece, Control):
            if piece.text == THINK_OPEN:
                return "reasoning"
            if piece.text in (THINK_CLOSE, TURN_OPEN):
                return "content"
    return "content"


def probe(source: str, template: ChatTemplate) -> TemplateProfile:
    """Raises ArtifactInvalid when the template cannot render a plain question, leaves it out, or writes control
    tokens in a way that cannot be told from text."""
    return _Probes(source, template).profile()


class _Probes:
    def __init__(self, source: str, template: ChatTemplate) -> None:
        self._source = source
        self._template = template

    def profile(self) -> TemplateProfile:
        try:
            plain = self._render([_USER])
        except InvalidPrompt as error:
            raise self._invalid(f"it cannot render one user message: {error.message}") from error
        if _USER["content"] not in plain.text:
            raise self._invalid("it writes nothing of a user message: no model could see what it is asked")
        toggle = self._opens([_USER], True) == "reasoning" and self._opens([_USER], False) == "content"
        thinking: dict[str, Any] = {"enable_thinking": True} if toggle else {}
        kept, stripped = (self._preserves(preserve) for preserve in (True, False))
        efforts, default_effort = self._efforts(thinking)
        capabilities = TemplateCapabilities(
            thinking_toggle=toggle,
            efforts=efforts,
            default_effort=default_effort,
            preserve_thinking=kept is True and stripped is False,
            tools=self._writes([_USER], "probe-tool", tools=[_TOOL])
            and self._writes([_USER, *_TOOL_TURNS], "probe-result", tools=[_TOOL]),
        )
        return TemplateProfile(
            capabilities=capabilities,
            always_thinks=opened_channel(plain) == "reasoning",
            always_preserves=self._preserves(None) is True,
            system_anywhere=self._writes([_SYSTEM, _SYSTEM, _USER], "probe-system") and self._keeps_system_in_place(),
        )

    def _efforts(self, thinking: dict[str, Any]) -> tuple[tuple[str, ...], str | None]:
        """An effort is exposed when it is accepted and does not just fall through as an unknown word does."""
        unknown = self._text(thinking | {"reasoning_effort": _UNKNOWN_EFFORT})
        texts = {effort: self._text(thinking | {"reasoning_effort": effort}) for effort in EFFORTS}
        exposed = {effort: text for effort, text in texts.items() if text is not None and text != unknown}
        omitted = self._text(thinking)
        default = next((effort for effort, text in exposed.items() if text == omitted), None)
        return tuple(exposed), default

    def _preserves(self, preserve: bool | None) -> bool | None:
        """Whether reasoning of a closed turn is written; None when the template refuses the option."""
        options = {} if preserve is None else {"preserve_thinking": preserve}
        rendered = self._attempt([_USER, _REASONED, _AGAIN], options)
        return None if rendered is None else "probe-reasoning" in rendered.text

    def _opens(self, messages: list[dict[str, Any]], enable_thinking: bool) -> Channel | None:
        rendered = self._attempt(messages, {"enable_thinking": enable_thinking})
        return None if rendered is None else opened_channel(rendered)

    def _writes(self, messages: list[dict[str, Any]], wanted: str, **options: Any) -> bool:
        """Whether the text of every message with that content is written."""
        rendered = self._attempt(messages, options)
        count = max(1, sum(message["content"] == wanted for message in messages))
        return rendered is not None and rendered.text.count(wanted) >= count

    def _keeps_system_in_place(self) -> bool:
        rendered = self._attempt([_USER, _REASONED, _SYSTEM, _AGAIN], {})
        return rendered is not None and (
            rendered.text.find("probe-answer") < rendered.text.find("probe-system") < rendered.text.find("probe-more")
        )

    def _text(self, options: Mapping[str, Any]) -> str | None:
        rendered = self._attempt([_USER], options)
        return None if rendered is None else rendered.text

    def _attempt(self, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> RenderedPrompt | None:
        try:
            return self._render(messages, options)
        except InvalidPrompt:
            return None

    def _render(self, messages: list[dict[str, Any]], options: Mapping[str, Any] | None = None) -> RenderedPrompt:
        variables = {"messages": messages, "tools": None, "add_generation_prompt": True, **(options or {})}
        rendered = self._template.render(variables)
        unmarked = self._template.unmarked_control_tokens(rendered)
        if unmarked:
            raise self._invalid(
                f"it builds the control token {unmarked[0]!r} out of parts, so that it cannot be told from text that a "
                "user sends; write it as one string in the template"
            )
        return rendered

    def _invalid(self, problem: str) -> ArtifactInvalid:
        return ArtifactInvalid(f"{self._source}: chat_template.jinja", [problem])
