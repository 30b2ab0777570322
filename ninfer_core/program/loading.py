"""Weights become a model, and a drafter beside it where the plan has one."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ninfer_core.api.artifact import ArtifactHeader, WeightSource
from ninfer_core.api.errors import PluginBroken, PluginIncompatible
from ninfer_core.api.geometry import BuildShape
from ninfer_core.api.model import DraftableModel, Model
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.artifact.finite import FiniteWeights
from ninfer_core.plan.sizing import build_shape, kernels_on
from ninfer_core.plugins import LoadedPlugin
from ninfer_core.program.built_drafter import BuiltDrafter, drafts_on_host
from ninfer_core.program.workspace import weights_for

METHODS = {"device": ("ingest", "propose"), "host": ("open", "extend", "propose", "close")}
"""What a drafter has to have, by where it runs."""


def load_model(
    plan: ExecutionPlan,
    plugins: Mapping[str, tuple[LoadedPlugin, ...]],
    header: ArtifactHeader,
    weights: WeightSource,
    device: torch.device,
) -> tuple[Model, BuiltDrafter | None]:
    """Raises the errors of `build_model`, and ArtifactInvalid for weights that are no numbers."""
    finite = FiniteWeights(header.source, weights_for(device, weights))
    built = build_model(plan, plugins, header, finite, device)
    finite.check()
    return built


def build_model(
    plan: ExecutionPlan,
    plugins: Mapping[str, tuple[LoadedPlugin, ...]],
    header: ArtifactHeader,
    weights: WeightSource,
    device: torch.device,
) -> tuple[Model, BuiltDrafter | None]:
    """What the plugins make of `weights`. Raises their errors, and PluginIncompatible for a drafter on the device over
    a model that nothing can draft with."""
    (family,) = plugins["family"]
    shape = build_shape(plan.capacities, plan.activation_dtype, kernels_on(plan.device, plan.kernels), plan.drafter)
    model: Model = family.hook.ninfer_family_build(header=header, shape=shape, weights=weights, device=device)
    if plan.drafter is None:
        return model, None
    return model, _build_drafter(plan, family, plugins["spec"][0], header, shape, model, weights, device)


def _build_drafter(
    plan: ExecutionPlan,
    family: LoadedPlugin,
    spec: LoadedPlugin,
    header: ArtifactHeader,
    shape: BuildShape,
    model: Model,
    weights: WeightSource,
    device: torch.device,
) -> BuiltDrafter:
    on_host = drafts_on_host(plan)
    if not on_host and not isinstance(model, DraftableModel):
        raise PluginIncompatible(
            f"{spec.offer.label} drafts on the device, and the models of {family.offer.label} cannot be drafted with; "
            "leave --spec out, or name a backend that runs on the host"
        )
    drafter = spec.hook.ninfer_spec_build(header=header, shape=shape, model=model, weights=weights, device=device)
    missing = [name for name in METHODS["host" if on_host else "device"] if not callable(getattr(drafter, name, None))]
    if missing:
        raise PluginBroken(
            f"{spec.offer.label} gave back something wrong from ninfer_spec_build: {type(drafter).__name__} without "
            f"{', '.join(missing)}"
        )
    return BuiltDrafter(drafter, spec.offer.label)
