"""The plugins that come with ninfer keep to what is asked of anybody's."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ninfer_core.api import KINDS
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.manifest import ManifestConformance

DISTRIBUTIONS = sorted((Path(__file__).parents[2] / "plugins").glob("*/pyproject.toml"))


class TestOpenAIChat(ManifestConformance):
    kind = "protocol"
    plugin = "openai-chat@ninfer-protocols"


class TestOpenAIResponses(ManifestConformance):
    kind = "protocol"
    plugin = "openai-responses@ninfer-protocols"


class TestQwenHybrid(ManifestConformance):
    kind = "family"
    plugin = "qwen-hybrid@ninfer-models"


def declared(project: Path) -> set[tuple[str, str]]:
    """(kind, name) of every entry point that a distribution declares."""
    groups = tomllib.loads(project.read_text())["project"].get("entry-points", {})
    return {(group.removeprefix("ninfer."), name) for group, names in groups.items() for name in names}


@pytest.mark.parametrize("project", DISTRIBUTIONS, ids=lambda project: project.parent.name)
def test_entry_points_and_manifest_tables_name_the_same_plugins(project: Path) -> None:
    (package,) = project.parent.glob("ninfer_*/")
    manifest = package / "ninfer.toml"
    tables = tomllib.loads(manifest.read_text()) if manifest.exists() else {}
    assert set(tables) <= set(KINDS)
    assert {(kind, name) for kind, names in tables.items() for name in names} == declared(project)


def test_what_is_declared_is_what_is_installed() -> None:
    registry = PluginRegistry.discover(environment={"NINFER_PLUGINS": "off"})
    installed = {(offer.kind, offer.name) for offer in registry.offers()}
    assert installed == set().union(*(declared(project) for project in DISTRIBUTIONS))
