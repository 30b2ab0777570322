"""Plugins whose manifests cannot live together make no plan, and are not imported to find that out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package


def test_everything_the_manifests_say_against_each_other_is_one_error(
    registry: PluginRegistry, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "picky"
    folder.mkdir()
    manifest = """
[kv.picky]
api = 1
summary = "Picky"
requires = ["state.moon"]
conflicts = ["family.toy"]
"""
    write_plugin_package(folder, "picky-kv", {"kv:picky": "raise ImportError('imported')"}, manifest=manifest)
    monkeypatch.syspath_prepend(str(folder))
    entry_points = [*entry_points_in(tmp_path / "packages"), *entry_points_in(folder)]
    both = PluginRegistry.discover(entry_points, {})
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(kv_dtype="picky"), both, toy.header(), toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["plan_conflict", "plan_conflict"]
    assert "needs state.moon" in caught.value.message
    assert "cannot run with family.toy" in caught.value.message
    assert "choose something else than --family toy or than --kv-dtype picky" in caught.value.message
