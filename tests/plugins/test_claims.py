from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ninfer_core.api import ArtifactHeader, ArtifactIdentity
from ninfer_core.plugins import PluginRegistry, claiming_families, overlapping_paths
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

FAMILY = """
from ninfer_core.api import ArtifactInvalid, hookimpl

@hookimpl
def ninfer_family_match(header):
    {body}
"""


def header(family: str) -> ArtifactHeader:
    identity = ArtifactIdentity(model_id="m", weights_id="bf16", family=family, format_version=1)
    return ArtifactHeader(source="m.ninfer", identity=identity, config={}, resources={}, tensors=())


def test_every_usable_family_is_asked_and_a_broken_one_is_reported_beside_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    families = {
        "family:alpha": FAMILY.format(body="return header.identity.family in ('alpha', 'shared')"),
        "family:beta": FAMILY.format(body="return header.identity.family in ('beta', 'shared')"),
        "family:crash": FAMILY.format(body="raise RuntimeError('crashed')"),
        "family:strict": FAMILY.format(body="raise ArtifactInvalid('m.ninfer', ['not mine'])"),
        "family:unimportable": "raise ImportError('no library')",
    }
    write_plugin_package(tmp_path, "claims-pkg", families)
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    names = {
        family: [plugin.offer.name for plugin in claiming_families(registry, header(family)).claims]
        for family in ("alpha", "beta", "shared", "none", "crash")
    }
    assert names == {"alpha": ["alpha"], "beta": ["beta"], "shared": ["alpha", "beta"], "none": [], "crash": []}
    messages = [failure.message for failure in claiming_families(registry, header("shared")).failures]
    assert len(messages) == 3 and "crashed" in messages[0] and "no library" in messages[2]
    assert "family plugin 'strict' from claims-pkg 1.0 failed in ninfer_family_match: m.ninfer" in messages[1]
    assert claiming_families(registry, header("alpha")).failures == (), "only the family that is named was asked"


def test_a_container_that_names_its_family_imports_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    families = {"family:aaa": FAMILY.format(body="return True"), "family:mine": FAMILY.format(body="return True")}
    write_plugin_package(tmp_path, "claims-named", families)
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    assert [plugin.offer.name for plugin in claiming_families(registry, header("mine")).claims] == ["mine"]
    assert "claims_named.family_aaa" not in sys.modules
    assert len(claiming_families(registry, header("")).claims) == 2


def test_a_family_of_another_api_version_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    manifest = '[family.next]\napi = 2\nsummary = "Next"\n'
    write_plugin_package(tmp_path, "claims-next", {"family:next": "raise RuntimeError"}, manifest=manifest)
    found = claiming_families(PluginRegistry.discover(entry_points_in(tmp_path), {}), header("next"))
    assert found.claims == () and found.failures == ()


def test_paths_that_two_protocols_mount_are_found_in_whatever_spelling() -> None:
    clashes = overlapping_paths(
        {
            "openai-chat": ["/v1/chat/completions", "/v1/things/{id:str}"],
            "openai-responses": ["/v1/responses", "/v1/responses"],
            "third": ["/v1/chat/completions/", "/v1/things/{name}", "/v1/chat"],
        }
    )
    assert clashes == (
        ("/v1/chat/completions/", "openai-chat", "third"),
        ("/v1/things/{name}", "openai-chat", "third"),
    )
