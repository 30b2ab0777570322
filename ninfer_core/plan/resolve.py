"""Options, plugins, an artifact's header and a device in; the frozen plan out.

Stages, each of which reports all of its problems together: options and plugin names; what the plugins need of one
another; the artifact's family, geometry and inventory; capacities; memory; what the chat template can do. Nothing is
allocated and no weight is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import cast

from ninfer_core.api.artifact import ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, PlanRejected, PluginIncompatible, Problem
from ninfer_core.api.frontend import Frontend, TemplateCapabilities, ThinkingDefaults
from ninfer_core.api.geometry import BuildShape, Geometry, Kernels
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.plan import Capacities, DeviceInfo, ExecutionPlan, Features, PluginPin
from ninfer_core.api.protocol import Compat
from ninfer_core.api.request import SamplingOptions
from ninfer_core.api.version import API_VERSION
from ninfer_core.artifact.drafter import without_drafter
from ninfer_core.artifact.encoding import encoding_problem
from ninfer_core.artifact.fingerprint import artifact_fingerprint
from ninfer_core.artifact.frontend import checked_frontend
from ninfer_core.artifact.identity import CODED_FORMS
from ninfer_core.artifact.inventory import inventory_problems
from ninfer_core.plan.capacities import fitted_capacities, wanted_capacities
from ninfer_core.plan.features import cuda_graphs, planned_features
from ninfer_core.plan.option_sources import check_ranges
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.selection import Selection, claim_family, require_capabilities, select_plugins
from ninfer_core.plan.sizing import TEXT_ALONE, Sizing
from ninfer_core.plan.speculation import (
    check_groups,
    chosen_draft_tokens,
    draft_tensors,
    drafter_of,
    speculation_feature,
)
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import PluginOffer
from ninfer_core.plugins.registry import PluginRegistry


@dataclass(frozen=True, slots=True)
class Resolution:
    """A plan with what was built while making it, for the process that goes on to serve it."""

    plan: ExecutionPlan
    frontend: Frontend
    family: LoadedPlugin
    kv: LoadedPlugin
    spec: LoadedPlugin | None = None


def resolve(
    options: ServeOptions, registry: PluginRegistry, header: ArtifactHeader, device: DeviceInfo
) -> ExecutionPlan:
    """The frozen plan.

    Raises PlanRejected with all problems of the first stage that has any, ArtifactInvalid when the artifact's config
    or tensors are wrong, PluginBroken when a selected plugin does not load or breaks its contract.
    """
    return resolve_for_serving(options, registry, header, device).plan


def resolve_for_serving(
    options: ServeOptions, registry: PluginRegistry, header: ArtifactHeader, device: DeviceInfo
) -> Resolution:
    """`resolve`, keeping the frontend and the plugins that it had to build."""
    check_ranges(options)
    return resolve_selected(options, select_plugins(options, registry, device), registry, header, device)


def resolve_selected(
    options: ServeOptions, selection: Selection, registry: PluginRegistry, header: ArtifactHeader, device: DeviceInfo
) -> Resolution:
    """`resolve_for_serving` for options that have been checked and a selection made from them."""
    family = claim_family(selection.family, registry, header)
    specs = () if selection.spec is None else (selection.spec,)
    require_capabilities((family.offer, selection.kv, *specs, *selection.protocols), registry)
    kv, spec = registry.load(selection.kv), next(map(registry.load, specs), None)
    activation_dtype = "float32" if device.kind == "cpu" else "bfloat16"
    geometry = _geometry(family, header, activation_dtype)
    layout = _kv_layout(kv, geometry, options)
    sizing = Sizing(
        device=device,
        geometry=geometry,
        layout=layout,
        activation_dtype=activation_dtype,
        resident=_resident(family, header, activation_dtype),
        workspace=_workspace(family, header),
        kernels=_kernels(options),
        cuda_graphs=cuda_graphs(options, device, geometry, layout).on,
        drafter=drafter_of(options, spec, header, geometry),
    )
    wanted = wanted_capacities(options, geometry, chosen_draft_tokens(options, spec, header))
    if (drafter := sizing.planned_drafter(wanted)) is not None:
        known = (*family.hook.ninfer_family_inventory(header=header), *draft_tensors(options, spec, header, geometry))
        check_groups(options, drafter, header, known)
    capacities = fitted_capacities(options, sizing, wanted, lambda: _smaller_forms(options, registry, family, header))
    frontend = checked_frontend(family, header, geometry)
    _check_thinking(options, frontend.capabilities)
    pins = (family.pin, kv.pin, *map(_pin, specs), *(_pin(offer) for offer in selection.protocols))
    speculation = speculation_feature(options, spec, wanted.draft_tokens)
    features = planned_features(options, sizing, frontend.capabilities, speculation)
    plan = _freeze(options, pins, header, frontend, sizing, capacities, features)
    return Resolution(plan=plan, frontend=frontend, family=family, kv=kv, spec=spec)


def _geometry(family: LoadedPlugin, header: ArtifactHeader, activation_dtype: str) -> Geometry:
    geometry: Geometry = family.hook.ninfer_family_geometry(header=header, activation_dtype=activation_dtype)
    inventory = family.hook.ninfer_family_inventory(header=header)
    problems = inventory_problems(without_drafter(header), inventory, TEXT_ALONE)
    if problems:
        raise ArtifactInvalid(header.source, problems)
    return geometry


def _resident(
    family: LoadedPlugin, header: ArtifactHeader, activation_dtype: str
) -> Callable[[tuple[str, ...]], Sequence[TensorSpec]]:
    @cache
    def resident(groups: tuple[str, ...]) -> Sequence[TensorSpec]:
        specs: Sequence[TensorSpec] = family.hook.ninfer_family_resident(
            header=header, activation_dtype=activation_dtype, groups=groups
        )
        return specs

    return resident


def _smaller_forms(
    options: ServeOptions, registry: PluginRegistry, family: LoadedPlugin, header: ArtifactHeader
) -> tuple[str, ...]:
    """What was not chosen and would have these matrices, or the cache, in fewer bytes."""
    stored = header.identity.weights_id
    coded = [form for form in CODED_FORMS if form != stored and encoding_problem(header, family, form) is None]
    weights = f"--weights {' or '.join(coded)}" if coded else "smaller weights"
    narrow = options.kv_dtype == "bf16" and any(offer.name == "fp8" for offer in registry.offers("kv"))
    return (weights, *(("--kv-dtype fp8",) if narrow else ()))


def _kv_layout(kv: LoadedPlugin, geometry: Geometry, options: ServeOptions) -> KVLayout:
    try:
        layout: KVLayout = kv.hook.ninfer_kv_layout(head_dim=geometry.attention.head_dim)
    except PluginIncompatible as error:
        message = f"{options.origin('kv_dtype')} {options.kv_dtype}: {error.message}"
        problem = Problem(code=error.code, message=message, remedy="--kv-dtype bf16 stores every head dimension")
        raise PlanRejected([problem]) from error
    return layout


def _workspace(family: LoadedPlugin, header: ArtifactHeader) -> Callable[[BuildShape], int]:
    def workspace(shape: BuildShape) -> int:
        return int(family.hook.ninfer_family_workspace(header=header, shape=shape))

    return workspace


def _check_thinking(options: ServeOptions, capabilities: TemplateCapabilities) -> None:
    wanted = (
        ("no_thinking", options.no_thinking, capabilities.thinking_toggle, "switches thinking off"),
        ("preserve_thinking", options.preserve_thinking, capabilities.preserve_thinking, "keeps earlier reasoning"),
    )
    problems = [
        Problem(
            code="template_cannot",
            message=f"{options.origin(name)}: the artifact's chat template has nothing that {what}",
            remedy="leave it out",
        )
        for name, given, able, what in wanted
        if given and not able
    ]
    if problems:
        raise PlanRejected(problems)


def _freeze(
    options: ServeOptions,
    pins: tuple[PluginPin, ...],
    header: ArtifactHeader,
    frontend: Frontend,
    sizing: Sizing,
    capacities: Capacities,
    features: Features,
) -> ExecutionPlan:
    return ExecutionPlan(
        ninfer_version=version("ninfer"),
        api=API_VERSION,
        pins=pins,
        source=header.source,
        identity=header.identity,
        fingerprint=artifact_fingerprint(header),
        device=sizing.device,
        geometry=sizing.geometry,
        token_domain=frontend.token_domain,
        activation_dtype=sizing.activation_dtype,
        kv_layout=sizing.layout,
        capacities=capacities,
        template=frontend.capabilities,
        thinking=ThinkingDefaults(
            enable_thinking=not options.no_thinking,
            preserve_thinking=options.preserve_thinking,
            thinking_budget=options.default_thinking_budget,
        ),
        presets=frontend.presets,
        sampling_overrides=_sampling(options),
        greedy=options.greedy,
        features=features,
        kernels=sizing.kernels,
        ledger=sizing.ledger(capacities),
        compat=_compat(options),
        tolerant_tool_calls=options.tolerant_tool_calls,
        drafter=sizing.planned_drafter(capacities),
    )


def _compat(options: ServeOptions) -> tuple[Compat, ...]:
    return tuple(cast("Compat", name) for name in sorted(options.compat or ()))


def _pin(offer: PluginOffer) -> PluginPin:
    return PluginPin(kind=offer.kind, name=offer.name, package=offer.package, version=offer.version)


def _sampling(options: ServeOptions) -> SamplingOptions:
    return SamplingOptions(**{name: getattr(options, name) for name in SamplingOptions.__struct_fields__})


def _kernels(options: ServeOptions) -> Kernels:
    return cast("Kernels", options.kernels)
