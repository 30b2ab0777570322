"""The plugin page says what the code does: hooks and their signatures, fields, states, codes, the example."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from ninfer_core.api import (
    API_VERSION,
    KINDS,
    PROVISIONAL_KINDS,
    Manifest,
    PluginAmbiguous,
    PluginBroken,
    PluginIncompatible,
    PluginProvisional,
    PluginUnknown,
)
from ninfer_core.api.hooks import SPECS_BY_KIND, CommonHooks, is_optional
from ninfer_core.plugins.checking import CheckResult
from ninfer_core.plugins.listing import BLOCKED, NOT_BUILT
from ninfer_core.plugins.loading import hook_names
from ninfer_core.plugins.offer import OfferState
from ninfer_core.plugins.registry import OPTION_BY_KIND

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
EXAMPLE = ROOT / "examples" / "plugins" / "ninfer-kv-q8row"
BLOCKS = re.findall(r"\n\n`([^`\n]+)`[^\n]*(?:\n[^\n]+)*\n\n```\w+\n(.*?)\n```(?=\n)", PAGE, re.DOTALL)
"""(file, text): a paragraph that begins with the name of a file, and the fenced block after it."""


def signature(kind: str, hook: str) -> str:
    arguments = list(inspect.signature(getattr(SPECS_BY_KIND[kind], hook)).parameters)[1:]
    return f"{hook}({', '.join(arguments)})"


def documented(section: str) -> list[str]:
    """The headings of one subsection of the hooks."""
    text = PAGE.partition(f"\n### {section}\n")[2]
    return re.findall(r"^#### (.+)$", re.split(r"^###? ", text, flags=re.MULTILINE)[0], re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_hook_stands_under_its_kind_with_its_exact_signature_and_no_other_does(kind: str) -> None:
    own = {signature(kind, hook) for hook in hook_names(kind) if not hasattr(CommonHooks, hook)}
    assert sorted(documented(kind)) == sorted(own)


def test_the_hooks_of_every_kind_are_documented_once() -> None:
    assert documented("Every kind") == [
        signature("kv", hook) for hook in dir(CommonHooks) if hook.startswith("ninfer_")
    ]


def test_the_table_of_hooks_says_which_are_optional() -> None:
    rows = dict(re.findall(r"^\| (ninfer_\w+) \| (yes|no) \|", PAGE, re.MULTILINE))
    known = {(kind, hook) for kind in KINDS for hook in hook_names(kind)}
    assert rows == {hook: "yes" if is_optional(kind, hook) else "no" for kind, hook in known}


def test_provisional_kinds_are_said_to_be() -> None:
    for kind in PROVISIONAL_KINDS:
        hooks = [hook for hook in hook_names(kind) if not hasattr(CommonHooks, hook)]
        assert hooks and all(re.search(rf"^\| {hook} \|.*\(provisional\) \|$", PAGE, re.MULTILINE) for hook in hooks)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_in_the_table_with_its_group_and_option(kind: str) -> None:
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", PAGE, re.MULTILINE)
    assert f"`ninfer.{kind}`" in row and f"`{OPTION_BY_KIND[kind]}" in row


def test_every_manifest_field_state_and_error_code_has_a_row() -> None:
    words = set(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE))
    states = {*get_args(OfferState), "failing", BLOCKED, NOT_BUILT}
    assert "failing" in str(CheckResult.__annotations__["word"])
    errors = (PluginUnknown, PluginAmbiguous, PluginIncompatible, PluginProvisional, PluginBroken)
    codes = {error.code for error in errors}
    assert words == set(KINDS) | set(Manifest.__struct_fields__) | states | codes
    assert f"this ninfer has version {API_VERSION}" in PAGE


def test_the_blocks_of_the_example_are_cut_from_its_files() -> None:
    assert len(BLOCKS) == PAGE.count("```") // 2 == 6
    for file, block in BLOCKS:
        assert block in (EXAMPLE / file).read_text(), file
