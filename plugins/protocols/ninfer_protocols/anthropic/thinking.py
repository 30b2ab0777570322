"""Thinking and effort of a request -> template options (contract ANTH-11, ANTH-14, ANTH-15, decisions 9 and 14)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ninfer_core.api import EFFORTS, TemplateOptions
from ninfer_protocols.anthropic.requests import PromptRequest, ThinkingOptions
from ninfer_protocols.wire.errors import invalid_value

MIN_BUDGET_TOKENS = 1024
KNOWN_EFFORTS = tuple(word for word in EFFORTS if word != "minimal")
"""Anthropic's protocol has no `minimal`."""

_MAPPED_EFFORTS = ("high", "max")


class EffortRules(msgspec.Struct, frozen=True, kw_only=True):
    """`exposed` are the template's tiers from low to high; with `map_highest`, `high` and `max` mean the highest."""

    exposed: Sequence[str]
    map_highest: bool

    def resolve(self, asked: str | None) -> str | None:
        """The tier to render with. Raises RequestError `reasoning_effort_not_supported`."""
        if asked is None or asked in self.exposed:
            return asked
        if asked not in KNOWN_EFFORTS:
            raise invalid_value("output_config.effort", f"is '{asked}'; known words are {', '.join(KNOWN_EFFORTS)}")
        if self.map_highest and asked in _MAPPED_EFFORTS:
            return self.exposed[-1] if self.exposed else None
        known = ", ".join(self.exposed) or "none at all; leave it out"
        raise invalid_value(
            "output_config.effort",
            f"'{asked}' is not one that this model's chat template has: {known}",
            code="reasoning_effort_not_supported",
        )


def template_options(request: PromptRequest, efforts: EffortRules, *, prefill: bool) -> TemplateOptions:
    """An effort says nothing where there is no thinking: it is checked, and left out of the prompt."""
    thinking = None if request.thinking is None else _enabled(request.thinking)
    if prefill:
        if thinking:
            raise invalid_value(
                "thinking.type",
                "an answer that begins with text cannot think first; send 'disabled', or end with a user message",
                code="assistant_prefill_not_supported",
            )
        thinking = False
    effort = efforts.resolve(request.output_config.effort if request.output_config else None)
    return TemplateOptions(
        enable_thinking=thinking,
        reasoning_effort=None if thinking is False else effort,
        preserve_thinking=request.preserve_thinking,
    )


def thinking_budget(thinking: ThinkingOptions | None, max_tokens: int | None) -> int | None:
    """Tokens, None without a budget. `max_tokens` None leaves the comparison with it to the engine's own limits."""
    if thinking is None or thinking.type != "enabled":
        return None
    budget = thinking.budget_tokens
    assert budget is not None, "checked with the type"
    if max_tokens is not None and budget >= max_tokens:
        raise invalid_value(
            "thinking.budget_tokens", f"is {budget}, and must be less than max_tokens, which is {max_tokens}"
        )
    return budget


def _enabled(thinking: ThinkingOptions) -> bool:
    if thinking.type not in ("disabled", "adaptive", "enabled"):
        raise invalid_value("thinking.type", f"is '{thinking.type}'; it must be disabled, adaptive or enabled")
    if thinking.type == "enabled" and (thinking.budget_tokens or 0) < MIN_BUDGET_TOKENS:
        found = "is missing" if thinking.budget_tokens is None else f"is {thinking.budget_tokens}"
        raise invalid_value("thinking.budget_tokens", f"{found}; it must be {MIN_BUDGET_TOKENS} or more")
    if thinking.display == "omitted":
        raise invalid_value(
            "thinking.display",
            "'omitted': thinking cannot be hidden and restored later; only 'summarized' is accepted",
            code="thinking_display_not_supported",
        )
    if thinking.display not in (None, "summarized"):
        raise invalid_value("thinking.display", f"is '{thinking.display}'; only 'summarized' is accepted")
    return thinking.type != "disabled"
