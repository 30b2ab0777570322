"""Compares what an artifact holds with what its family and its drafter's backend know, before anything is read or
allocated."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence

from ninfer_core.api.artifact import DRAFT_GROUP, ArtifactHeader, TensorSpec
from ninfer_core.api.geometry import Geometry
from ninfer_core.artifact.drafter import draft_inventory, without_drafter
from ninfer_core.artifact.wording import bounded, quoted
from ninfer_core.plugins import PluginRegistry

REQUIRED_GROUP = "text"
"""Of tensors that no model goes without."""

_MAX_RANGES = 12


def whole_inventory(
    registry: PluginRegistry, header: ArtifactHeader, geometry: Geometry, known: Sequence[TensorSpec]
) -> tuple[tuple[TensorSpec, ...], list[str]]:
    """What the family knows and the drafter beside the target, and all that is wrong with what is there: every group
    that is there at all has to be whole, and a drafter's as soon as its config is."""
    draft, problems = draft_inventory(registry, header, geometry)
    inventory = (*known, *draft)
    stored = {spec.name for spec in header.tensors}
    groups = {REQUIRED_GROUP, *(spec.group for spec in inventory if spec.name in stored)}
    judged, groups = (header, groups | {DRAFT_GROUP}) if draft else (without_drafter(header), groups)
    return inventory, [*problems, *inventory_problems(judged, inventory, groups)]


def inventory_problems(
    header: ArtifactHeader, inventory: Sequence[TensorSpec], enabled_groups: Collection[str]
) -> list[str]:
    """One line for each kind of mismatch: a tensor that is missing, misshapen, of another dtype, or unknown.

    Tensors of groups that are not enabled may be absent, in part or wholly, and are not looked at. A tensor that
    the inventory does not name at all is always a problem. Names that differ in their numbers only share a line:
    `missing: model.layers.{3,7,11}.self_attn.q_proj.weight, bfloat16 [12288, 5120] (3 tensors)`. At most 40 lines
    and one with the number of those left out.
    """
    stored = {spec.name: spec for spec in header.tensors}
    known = {spec.name: spec for spec in inventory}
    wanted = [spec for spec in inventory if spec.group in enabled_groups]
    findings: list[tuple[str, str, str]] = []
    for spec in wanted:
        found = stored.get(spec.name)
        if found is None:
            findings.append(("missing", spec.name, _form(spec)))
        elif found.shape != spec.shape:
            findings.append(("wrong shape", spec.name, f"{list(found.shape)} instead of {list(spec.shape)}"))
        elif found.dtype != spec.dtype:
            findings.append(("wrong dtype", spec.name, f"{found.dtype} instead of {spec.dtype}"))
    findings.extend(("unknown", spec.name, _form(spec)) for spec in header.tensors if spec.name not in known)
    return bounded(_grouped(findings))


def _form(spec: TensorSpec) -> str:
    return f"{spec.dtype} {list(spec.shape)}"


def _grouped(findings: Iterable[tuple[str, str, str]]) -> list[str]:
    """One line for all findings (kind, name, detail) that differ in the numbers of the name alone."""
    groups: dict[tuple[str, tuple[str | None, ...], str], list[tuple[int, ...]]] = {}
    for kind, name, detail in findings:
        parts = name.split(".")
        numbers = tuple(int(part) for part in parts if _is_number(part))
        pattern = tuple(None if _is_number(part) else part for part in parts)
        groups.setdefault((kind, pattern, detail), []).append(numbers)
    return [_line(kind, pattern, detail, numbers) for (kind, pattern, detail), numbers in groups.items()]


def _is_number(part: str) -> bool:
    # Nine digits are more layers or experts than there are; without a bound int() of a hostile name is slow.
    return part.isascii() and part.isdigit() and len(part) < 10


def _line(kind: str, pattern: tuple[str | None, ...], detail: str, numbers: list[tuple[int, ...]]) -> str:
    columns = [sorted(set(column)) for column in zip(*numbers, strict=True)]
    spelled = iter(_braces(column) for column in columns)
    name = ".".join(next(spelled) if part is None else part for part in pattern)
    count = "" if len(numbers) == 1 else f" ({len(numbers)} tensors)"
    combinations = 1
    for column in columns:
        combinations *= len(column)
    if len(numbers) < combinations:
        count = f" ({len(numbers)} of these {combinations} tensors)"
    return f"{kind}: {_printable(name)}, {detail}{count}"


def _braces(values: Sequence[int]) -> str:
    """`3` for one value, else `{0-2,4}`."""
    if len(values) == 1:
        return str(values[0])
    runs = []
    for _, run in itertools.groupby(enumerate(values), key=lambda item: item[1] - item[0]):
        members = [value for _, value in run]
        runs.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return "{" + ",".join(runs[:_MAX_RANGES]) + (",..." if len(runs) > _MAX_RANGES else "") + "}"


def _printable(name: str) -> str:
    return name if name.isprintable() and len(name) < 160 else quoted(name)
