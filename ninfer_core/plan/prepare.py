"""From options alone to a plan: finds the device, opens the artifact, resolves. What `ninfer plan` shows and what
`ninfer serve` goes on with are made by the same call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.api.plan import Capacities, ExecutionPlan
from ninfer_core.api.stored_matrix import WeightsFormat
from ninfer_core.artifact import ArtifactHandle, open_artifact
from ninfer_core.artifact.encoding import encoded_artifact, encoding_problem
from ninfer_core.plan.device import GpuProbe, find_device, probe_gpus
from ninfer_core.plan.option_sources import check_ranges
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.reference_operations import reference_operations
from ninfer_core.plan.resolve import Resolution, resolve_selected
from ninfer_core.plan.selection import Selection, claim_family, select_plugins
from ninfer_core.plan.settings import ServerSettings, server_settings
from ninfer_core.plugins.registry import PluginRegistry


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a command needs to show a plan or to start it. `notes` are things a user should know, a line each;
    `reference_operations` are what plain torch computes on a GPU because no kernel takes it."""

    resolution: Resolution
    settings: ServerSettings
    artifact: ArtifactHandle
    registry: PluginRegistry
    notes: tuple[str, ...]
    reference_operations: tuple[str, ...]

    @property
    def plan(self) -> ExecutionPlan:
        return self.resolution.plan


def prepare(
    options: ServeOptions,
    registry: PluginRegistry,
    environment: Mapping[str, str] = os.environ,
    probe: GpuProbe | None = None,
) -> Prepared:
    """Make the plan that the options ask for. `probe` None asks the driver which GPUs there are.

    Raises the StartupErrors of `resolve`, and ArtifactInvalid when the artifact cannot be opened.
    """
    check_ranges(options)
    gpus = _needed_probe(options, environment) if probe is None else probe
    device = find_device(options, gpus)
    # Wrong options are worth knowing before an artifact is looked for.
    selection = select_plugins(options, registry, device)
    stored = open_artifact(options.artifact, registry)
    artifact = _in_wanted_form(options, selection, registry, stored)
    resolution = resolve_selected(options, selection, registry, artifact.header, device)
    notes = list(artifact.notes)
    if artifact is not stored and stored.header.file_bytes:
        form = artifact.header.identity.weights_id
        notes.append(f"matrices are put into {form} at every start; `ninfer convert --weights {form}` does it once")
    if device.kind == "cpu" and options.device is None:
        notes.append(f"planned for the CPU: {gpus.reason}")
    if device.name == "assumed":
        notes.append(f"the CUDA device is assumed: {gpus.reason}")
    notes.extend(_shared_capacity(resolution.plan.capacities))
    return Prepared(
        resolution=resolution,
        settings=server_settings(options, artifact.header.identity),
        artifact=artifact,
        registry=registry,
        notes=tuple(notes),
        reference_operations=reference_operations(resolution, artifact.header),
    )


def _shared_capacity(capacities: Capacities) -> Iterator[str]:
    """A request that names no limit reserves room for the longest answer; where that is the whole pool, one runs at a
    time whatever --max-concurrency says (contract EXEC-8, EXEC-22)."""
    whole = capacities.kv_pages * capacities.page_tokens
    reserved = min(capacities.max_context, capacities.default_max_tokens)
    together = max(1, whole // reserved)
    if together < capacities.max_concurrency:
        yield (
            f"requests that name no output limit reserve {reserved} KV tokens or more of {whole}, so that at most "
            f"{together} of {capacities.max_concurrency} run together; --kv-capacity "
            f"{capacities.max_concurrency * reserved} or a smaller --default-max-tokens lets all of them"
        )


def _in_wanted_form(
    options: ServeOptions, selection: Selection, registry: PluginRegistry, artifact: ArtifactHandle
) -> ArtifactHandle:
    """The artifact with its matrices as `--weights` wants them."""
    if options.weights is None:
        return artifact
    weights = cast("WeightsFormat", options.weights)
    family = claim_family(selection.family, registry, artifact.header)
    problem = encoding_problem(artifact.header, family, weights)
    if problem is not None:
        message = f"{options.origin('weights')} {weights}: {problem}"
        raise PlanRejected([Problem(code="weights_form", message=message, remedy="leave --weights out")])
    return encoded_artifact(artifact, family, weights)


def _needed_probe(options: ServeOptions, environment: Mapping[str, str]) -> GpuProbe:
    if options.device == "cpu":
        return GpuProbe((), "the CPU was asked for")
    return probe_gpus(environment)
