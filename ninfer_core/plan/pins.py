"""The other end of a plan: a process that was handed one loads exactly the plugins it was made with.

The pins are compared, and nothing is resolved again: the plan arrives as data with every number in it, and what made
it (options, a device query, tokenizer files) need not be read twice. That the data itself arrived whole is shown by
comparing digests.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version

from ninfer_core.api.errors import PlanRejected, Problem, StartupError
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.version import API_VERSION
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.registry import PluginRegistry

DEVICE_KINDS = frozenset({"family", "kv", "spec"})
"""Kinds that the engine process needs; protocols stay in the front."""


def resolve_pinned(
    plan: ExecutionPlan, registry: PluginRegistry, kinds: Collection[str] = DEVICE_KINDS
) -> dict[str, tuple[LoadedPlugin, ...]]:
    """The pinned plugins of `kinds`, loaded, by kind and in the order of the pins.

    Raises PlanRejected with every pin that cannot be had at its version, and when the plan was made by another
    version of ninfer; PluginBroken when a plugin does not load.
    """
    problems = [*_core_problems(plan)]
    offers = []
    for pin in plan.pins:
        if pin.kind not in kinds:
            continue
        try:
            offer = registry.select(pin.kind, f"{pin.name}@{pin.package}", plan.device.kind)
        except StartupError as error:
            problems.append(_changed(error.message))
            continue
        if offer.version != pin.version:
            problems.append(_changed(f"{offer.label} is installed, and the plan was made with {pin.version}"))
        offers.append(offer)
    if problems:
        raise PlanRejected(problems)
    loaded: dict[str, tuple[LoadedPlugin, ...]] = dict.fromkeys(kinds, ())
    for offer in offers:
        loaded[offer.kind] = (*loaded[offer.kind], registry.load(offer))
    return loaded


def _core_problems(plan: ExecutionPlan) -> list[Problem]:
    here = version("ninfer")
    if (plan.ninfer_version, plan.api) == (here, API_VERSION):
        return []
    made_by = f"ninfer {plan.ninfer_version} (plugin API {plan.api})"
    return [_changed(f"the plan was made by {made_by}, and this is ninfer {here} (plugin API {API_VERSION})")]


def _changed(message: str) -> Problem:
    return Problem(code="plan_outdated", message=message, remedy="make the plan again with what is installed now")
