"""What a request says about thinking (contract RESP-10, RESP-11, RESP-64, IMPL-17)."""

from __future__ import annotations

from typing import Any

from ninfer_core.api import RequestError, TemplateCapabilities, TemplateOptions
from ninfer_protocols.openai_responses.requests import CreateRequest
from ninfer_protocols.wire.efforts import OPENAI_EFFORTS
from ninfer_protocols.wire.errors import invalid_value


def template_options(
    request: CreateRequest,
    capabilities: TemplateCapabilities | None,
    inherited_preserve: bool | None,
    *,
    ignore_summary: bool,
) -> TemplateOptions:
    """`inherited_preserve` is the parent's, for a request that says nothing. `ignore_summary` takes
    `reasoning.summary` as a wish (`--compat codex`). Efforts are checked where `capabilities` are known."""
    preserve = _preserve(request)
    effort = _effort(request.reasoning or {}, ignore_summary=ignore_summary)
    if effort not in (None, "none") and capabilities is not None and effort not in capabilities.efforts:
        offered = ", ".join(("none", *capabilities.efforts))
        raise invalid_value(
            "reasoning.effort",
            f"is '{effort}', which this model's template has not; it has {offered}",
            code="reasoning_effort_not_supported",
        )
    return TemplateOptions(
        enable_thinking=False if effort == "none" else None,
        reasoning_effort=None if effort == "none" else effort,
        preserve_thinking=inherited_preserve if preserve is None else preserve,
    )


def _effort(reasoning: dict[str, Any], *, ignore_summary: bool) -> str | None:
    ignored = {"effort", "summary"} if ignore_summary else {"effort"}
    for member, value in reasoning.items():
        if member not in ignored and value is not None:
            raise invalid_value(
                f"reasoning.{member[:80]}",
                "raw reasoning is returned as it is and cannot be shaped; leave it out",
                code="reasoning_option_not_supported",
            )
    effort = reasoning.get("effort")
    if effort is not None and effort not in OPENAI_EFFORTS:
        raise invalid_value("reasoning.effort", f"is {str(effort)[:80]!r}; known words are {', '.join(OPENAI_EFFORTS)}")
    return effort


def _preserve(request: CreateRequest) -> bool | None:
    nested = None
    for name, value in (request.chat_template_kwargs or {}).items():
        if value is None:
            continue
        if name != "preserve_thinking":
            raise invalid_value(
                f"chat_template_kwargs.{name[:80]}", "is not an option here; known is preserve_thinking"
            )
        if not isinstance(value, bool):
            raise invalid_value("chat_template_kwargs.preserve_thinking", "must be true or false")
        nested = value
    top_level = request.preserve_thinking
    if top_level is not None and nested is not None and top_level is not nested:
        raise RequestError(
            f"preserve_thinking: is {top_level} at top level and {nested} in chat_template_kwargs; send one of the two",
            code="conflicting_template_option",
            param="preserve_thinking",
        )
    return nested if top_level is None else top_level
