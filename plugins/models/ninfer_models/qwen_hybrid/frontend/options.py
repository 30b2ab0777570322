"""What a request and the server say about thinking, against what the template can do (contract TMPL-2 to 7)."""

from __future__ import annotations

from typing import Any

from ninfer_core.api import RequestError, TemplateOptions, ThinkingDefaults
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile

_CONFLICT = "conflicting_template_option"


def resolve(options: TemplateOptions, defaults: ThinkingDefaults, profile: TemplateProfile) -> TemplateOptions:
    """Options with nothing left open in what the template exposes, and None where it exposes nothing.

    An effort turns thinking on, `none` turns it off. Raises RequestError `reasoning_effort_not_supported` and
    `conflicting_template_option`.
    """
    thinking = _thinking(options, defaults, profile)
    return TemplateOptions(
        enable_thinking=thinking if profile.capabilities.thinking_toggle else None,
        reasoning_effort=_effort(options, profile) if thinking else None,
        preserve_thinking=_preserve(options, defaults, profile),
    )


def template_variables(asked: TemplateOptions, resolved: TemplateOptions) -> dict[str, Any]:
    """Variables to render with. An effort nobody asked for is left out, so that the template's own default holds."""
    variables: dict[str, Any] = {}
    if resolved.enable_thinking is not None:
        variables["enable_thinking"] = resolved.enable_thinking
    if resolved.preserve_thinking is not None:
        variables["preserve_thinking"] = resolved.preserve_thinking
    if asked.reasoning_effort is not None and resolved.reasoning_effort is not None:
        variables["reasoning_effort"] = resolved.reasoning_effort
    return variables


def _thinking(options: TemplateOptions, defaults: ThinkingDefaults, profile: TemplateProfile) -> bool:
    effort, asked = options.reasoning_effort, options.enable_thinking
    if effort not in (None, "none") and effort not in profile.capabilities.efforts:
        raise _effort_not_supported(effort, profile)
    implied = None if effort is None else effort != "none"
    if asked is not None and implied is not None and asked != implied:
        raise RequestError(
            f"reasoning_effort {effort!r} turns thinking {'on' if implied else 'off'} and enable_thinking "
            f"{str(asked).lower()} says the opposite; send one of them",
            code=_CONFLICT,
            param="enable_thinking",
        )
    wanted = implied if asked is None else asked
    if profile.capabilities.thinking_toggle:
        return defaults.enable_thinking if wanted is None else wanted
    fixed = profile.always_thinks
    if wanted is not None and wanted != fixed:
        if effort == "none":
            raise _effort_not_supported(effort, profile)
        raise RequestError(
            f"this model's chat template {'always' if fixed else 'never'} thinks; leave enable_thinking out",
            code=_CONFLICT,
            param="enable_thinking",
        )
    return fixed


def _effort(options: TemplateOptions, profile: TemplateProfile) -> str | None:
    return profile.capabilities.default_effort if options.reasoning_effort is None else options.reasoning_effort


def _effort_not_supported(effort: str | None, profile: TemplateProfile) -> RequestError:
    exposed = list(profile.capabilities.efforts)
    if profile.capabilities.thinking_toggle or not profile.always_thinks:
        exposed.append("none")
    known = ", ".join(exposed) or "none at all; leave it out"
    return RequestError(
        f"reasoning_effort {effort!r} is not one that this model's chat template has: {known}",
        code="reasoning_effort_not_supported",
        param="reasoning_effort",
    )


def _preserve(options: TemplateOptions, defaults: ThinkingDefaults, profile: TemplateProfile) -> bool | None:
    asked = options.preserve_thinking
    if profile.capabilities.preserve_thinking:
        return defaults.preserve_thinking if asked is None else asked
    if asked is not None and asked != profile.always_preserves:
        raise RequestError(
            f"this model's chat template {'always keeps' if profile.always_preserves else 'never keeps'} the reasoning "
            "of earlier turns; leave preserve_thinking out",
            code=_CONFLICT,
            param="preserve_thinking",
        )
    return None
