"""What is in an artifact, for people: identity, geometry, groups, resources, problems. Reads no weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, NinferError
from ninfer_core.api.geometry import Geometry
from ninfer_core.artifact.drafter import REPORTED_ACTIVATIONS
from ninfer_core.artifact.frontend import checked_frontend
from ninfer_core.artifact.identity import SCALE_ENDINGS, form_of_codes
from ninfer_core.artifact.inventory import whole_inventory
from ninfer_core.artifact.source import open_artifact
from ninfer_core.plugins import LoadedPlugin, PluginRegistry, claiming_families

UNKNOWN_GROUP = "unknown"
"""Group of a tensor that no family has named."""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`bytes_by_dtype` has what the group's tensors take by dtype."""

    group: str
    tensors: int
    bytes: int
    bytes_by_dtype: dict[str, int]


class FormSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored in one form, `plain` or that of its codes. `tensors` counts scales with their matrix, as `bytes`
    does."""

    form: str
    tensors: int
    weights: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.bytes / max(self.weights, 1)


class ResourceSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    bytes: int
    sha256: str


class TensorLine(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    group: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


class ArtifactReport(msgspec.Struct, frozen=True, kw_only=True):
    """`identity` is None exactly when the artifact could not be opened; then there are problems and little else.

    `families` are the references of the installed families that claim it; `geometry` is set when one does.
    """

    source: str
    identity: ArtifactIdentity | None
    families: tuple[str, ...]
    geometry: Geometry | None
    groups: tuple[GroupSummary, ...]
    forms: tuple[FormSummary, ...]
    resources: tuple[ResourceSummary, ...]
    tensors: tuple[TensorLine, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def valid(self) -> bool:
        return not self.problems


def report_artifact(source: str | None, registry: PluginRegistry) -> ArtifactReport:
    """Never raises for what the artifact or a family plugin does wrong: that is in `problems` and `notes`."""
    try:
        handle = open_artifact(source, registry)
    except ArtifactInvalid as invalid:
        return ArtifactReport(
            source=invalid.source,
            identity=None,
            families=(),
            geometry=None,
            groups=(),
            forms=(),
            resources=(),
            tensors=(),
            notes=(),
            problems=invalid.problems,
        )
    header = handle.header
    notes = list(handle.notes)
    problems: list[str] = []
    found = claiming_families(registry, header)
    notes.extend(failure.message for failure in found.failures)
    geometry, inventory = _as_plugins_see(registry, header, found.claims, problems, notes)
    tensors = _lines(header, {spec.name: spec.group for spec in inventory})
    return ArtifactReport(
        source=header.source,
        identity=header.identity,
        families=tuple(plugin.offer.reference for plugin in found.claims),
        geometry=geometry,
        groups=_groups(tensors),
        forms=_forms(header.tensors),
        resources=tuple(_resource(name, header.resources[name]) for name in sorted(header.resources)),
        tensors=tensors,
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _as_plugins_see(
    registry: PluginRegistry,
    header: ArtifactHeader,
    claims: Sequence[LoadedPlugin],
    problems: list[str],
    notes: list[str],
) -> tuple[Geometry | None, tuple[TensorSpec, ...]]:
    if not claims:
        kind = header.config.get("model_type", "absent")
        problems.append(f"no installed family claims it (model_type in config.json: {str(kind)[:60]!r})")
        return None, ()
    if len(claims) > 1:
        # It can be used all the same: --family names one of them.
        notes.append(f"several families claim it: {', '.join(plugin.offer.reference for plugin in claims)}")
        return None, ()
    hook = claims[0].hook
    try:
        geometry: Geometry = hook.ninfer_family_geometry(header=header, activation_dtype=REPORTED_ACTIVATIONS)
        known: Sequence[TensorSpec] = hook.ninfer_family_inventory(header=header)
    except ArtifactInvalid as invalid:
        problems.extend(invalid.problems)
        return None, ()
    except NinferError as broken:
        problems.append(broken.message)
        return None, ()
    inventory, wrong = whole_inventory(registry, header, geometry, known)
    problems.extend(wrong)
    problems.extend(_frontend_problems(claims[0], header, geometry))
    return geometry, inventory


def _frontend_problems(family: LoadedPlugin, header: ArtifactHeader, geometry: Geometry) -> Sequence[str]:
    try:
        checked_frontend(family, header, geometry)
    except ArtifactInvalid as invalid:
        # A source that goes beyond the artifact's names the resource.
        place = invalid.source.removeprefix(header.source).removeprefix(": ")
        return [f"{place}: {problem}" if place else problem for problem in invalid.problems]
    except NinferError as broken:
        return [broken.message]
    return ()


def _lines(header: ArtifactHeader, group_by_name: Mapping[str, str]) -> tuple[TensorLine, ...]:
    return tuple(
        TensorLine(
            name=spec.name,
            group=group_by_name.get(spec.name, UNKNOWN_GROUP),
            dtype=spec.dtype,
            shape=spec.shape,
            bytes=spec.bytes,
        )
        for spec in header.tensors
    )


def _groups(lines: tuple[TensorLine, ...]) -> tuple[GroupSummary, ...]:
    members: dict[str, list[TensorLine]] = {}
    for line in lines:
        members.setdefault(line.group, []).append(line)
    return tuple(_group(group, members[group]) for group in sorted(members))


def _group(group: str, lines: list[TensorLine]) -> GroupSummary:
    bytes_by_dtype: dict[str, int] = {}
    for line in lines:
        bytes_by_dtype[line.dtype] = bytes_by_dtype.get(line.dtype, 0) + line.bytes
    total = sum(bytes_by_dtype.values())
    return GroupSummary(group=group, tensors=len(lines), bytes=total, bytes_by_dtype=bytes_by_dtype)


def _forms(tensors: Sequence[TensorSpec]) -> tuple[FormSummary, ...]:
    """Codes with their scales by form, and everything else."""
    by_name = {spec.name: spec for spec in tensors}
    owner_of_scale: dict[str, str] = {}
    for spec in tensors:
        if form_of_codes(spec, by_name) is not None:
            stem = spec.name.removesuffix("_packed")
            owner_of_scale.update((stem + ending, spec.name) for ending in SCALE_ENDINGS if stem + ending in by_name)
    sums: dict[str, list[int]] = {}
    for spec in tensors:
        owner = by_name[owner_of_scale.get(spec.name, spec.name)]
        total = sums.setdefault(form_of_codes(owner, by_name) or "plain", [0, 0, 0])
        total[2] += spec.bytes
        if owner is spec:
            total[0] += 1
            total[1] += spec.elements * (2 if form_of_codes(spec, by_name) == "nvfp4" else 1)
    return tuple(
        FormSummary(form=form, tensors=sums[form][0], weights=sums[form][1], bytes=sums[form][2])
        for form in sorted(sums)
    )


def _resource(name: str, data: bytes) -> ResourceSummary:
    return ResourceSummary(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
