"""A plan that arrives in another process is matched with what is installed there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins.registry import PluginRegistry


@pytest.fixture
def plan(registry: PluginRegistry, toy: Any) -> ExecutionPlan:
    return resolve(ServeOptions(), registry, toy.header(), toy.cpu())


def repinned(plan: ExecutionPlan, **changes: str) -> ExecutionPlan:
    pins = tuple(msgspec.structs.replace(pin, **changes) for pin in plan.pins)
    return msgspec.structs.replace(plan, pins=pins)


def test_the_same_plugins(plan: ExecutionPlan, registry: PluginRegistry) -> None:
    loaded = resolve_pinned(plan, registry)
    assert {kind: [plugin.pin for plugin in plugins] for kind, plugins in loaded.items()} == {
        "family": [plan.pin("family")],
        "kv": [plan.pin("kv")],
        "spec": [],
    }
    assert [plugin.pin.name for plugin in resolve_pinned(plan, registry, {"protocol"})["protocol"]] == ["talk"]


def test_all_that_changed_is_said(plan: ExecutionPlan, registry: PluginRegistry) -> None:
    with pytest.raises(PlanRejected) as caught:
        resolve_pinned(repinned(plan, version="0.9"), registry)
    problems = caught.value.problems
    assert [problem.code for problem in problems] == ["plan_outdated"] * 2
    assert "toy-plugins 1.0 is installed, and the plan was made with 0.9" in problems[0].message
    with pytest.raises(PlanRejected) as caught:
        resolve_pinned(repinned(plan, package="gone"), registry)
    assert "'gone'" in caught.value.problems[0].message


def test_another_ninfer(plan: ExecutionPlan, registry: PluginRegistry) -> None:
    for changes in ({"ninfer_version": "0.0.1"}, {"api": 99}):
        with pytest.raises(PlanRejected) as caught:
            resolve_pinned(msgspec.structs.replace(plan, **changes), registry)
        (problem,) = caught.value.problems
        assert "the plan was made by ninfer" in problem.message
