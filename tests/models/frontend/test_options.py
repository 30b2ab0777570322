"""Thinking, effort and preserving: the request, the server and the template together."""

from __future__ import annotations

import pytest
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile
from ninfer_models.qwen_hybrid.frontend.options import resolve, template_variables

from ninfer_core.api import RequestError, TemplateCapabilities, TemplateOptions, ThinkingDefaults


def profile(
    *,
    toggle: bool = True,
    efforts: tuple[str, ...] = ("low", "medium", "xhigh"),
    preserve: bool = True,
    always_thinks: bool = True,
    always_preserves: bool = True,
) -> TemplateProfile:
    capabilities = TemplateCapabilities(
        thinking_toggle=toggle,
        efforts=efforts,
        default_effort="xhigh" if efforts else None,
        preserve_thinking=preserve,
        tools=True,
    )
    return TemplateProfile(
        capabilities=capabilities,
        always_thinks=always_thinks,
        always_preserves=always_preserves,
        system_anywhere=False,
    )


FULL = profile()
PLAIN = profile(efforts=())
ALWAYS = profile(toggle=False)
NEVER = profile(toggle=False, efforts=(), preserve=False, always_thinks=False, always_preserves=False)
OFF = ThinkingDefaults(enable_thinking=False)


@pytest.mark.contract("TMPL-2", "TMPL-4", "TMPL-6", "TMPL-9")
@pytest.mark.parametrize(
    ("thinking", "effort", "defaults", "wanted"),
    [
        (None, None, ThinkingDefaults(), (True, "xhigh", False)),
        (None, None, OFF, (False, None, False)),
        (None, None, ThinkingDefaults(preserve_thinking=True), (True, "xhigh", True)),
        (True, None, OFF, (True, "xhigh", False)),
        (False, None, ThinkingDefaults(), (False, None, False)),
        (None, "none", ThinkingDefaults(), (False, None, False)),
        (False, "none", ThinkingDefaults(), (False, None, False)),
        (None, "low", OFF, (True, "low", False)),
        (True, "medium", ThinkingDefaults(), (True, "medium", False)),
    ],
)
def test_resolution(
    thinking: bool | None,
    effort: str | None,
    defaults: ThinkingDefaults,
    wanted: tuple[bool, str | None, bool],
) -> None:
    resolved = resolve(TemplateOptions(enable_thinking=thinking, reasoning_effort=effort), defaults, FULL)
    assert (resolved.enable_thinking, resolved.reasoning_effort, resolved.preserve_thinking) == wanted


@pytest.mark.contract("TMPL-3", "TMPL-4")
@pytest.mark.parametrize(
    ("effort", "template"),
    [
        *(("minimal", FULL), ("high", FULL), ("max", FULL), ("LOW", FULL), ("", FULL)),
        *(("low", PLAIN), ("low", NEVER), ("none", ALWAYS)),
    ],
)
def test_efforts_that_the_template_lacks(effort: str, template: TemplateProfile) -> None:
    with pytest.raises(RequestError) as caught:
        resolve(TemplateOptions(reasoning_effort=effort), ThinkingDefaults(), template)
    assert caught.value.code == "reasoning_effort_not_supported"
    assert caught.value.param == "reasoning_effort"
    assert all(known in caught.value.message for known in template.capabilities.efforts)


@pytest.mark.contract("TMPL-5")
@pytest.mark.parametrize(
    ("options", "template", "param"),
    [
        (TemplateOptions(enable_thinking=True, reasoning_effort="none"), FULL, "enable_thinking"),
        (TemplateOptions(enable_thinking=False, reasoning_effort="low"), FULL, "enable_thinking"),
        (TemplateOptions(enable_thinking=False), ALWAYS, "enable_thinking"),
        (TemplateOptions(enable_thinking=True), NEVER, "enable_thinking"),
        (TemplateOptions(preserve_thinking=True), NEVER, "preserve_thinking"),
    ],
)
def test_contradictions(options: TemplateOptions, template: TemplateProfile, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        resolve(options, ThinkingDefaults(), template)
    assert caught.value.code == "conflicting_template_option"
    assert caught.value.param == param


def test_what_already_holds_may_be_asked_for() -> None:
    asked = TemplateOptions(enable_thinking=False, preserve_thinking=False, reasoning_effort="none")
    assert resolve(asked, ThinkingDefaults(), NEVER) == TemplateOptions()
    assert resolve(TemplateOptions(enable_thinking=True), OFF, ALWAYS).reasoning_effort == "xhigh"


def test_an_effort_nobody_asked_for_is_left_to_the_template() -> None:
    for asked in (TemplateOptions(), TemplateOptions(reasoning_effort="none")):
        assert "reasoning_effort" not in template_variables(asked, resolve(asked, ThinkingDefaults(), FULL))
    low = TemplateOptions(reasoning_effort="low")
    assert template_variables(low, resolve(low, ThinkingDefaults(), FULL)) == {
        "enable_thinking": True,
        "preserve_thinking": False,
        "reasoning_effort": "low",
    }
    assert template_variables(TemplateOptions(), resolve(TemplateOptions(), ThinkingDefaults(), NEVER)) == {}
