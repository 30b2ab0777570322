"""Reads `ninfer.toml` of a package that has not been imported."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ninfer_core.api.manifest import Manifest
from ninfer_core.api.version import API_VERSION
from ninfer_core.plugins.offer import package_locations

FILE_NAME = "ninfer.toml"
DEVICES = frozenset({"cpu", "cuda"})
MAX_BYTES = 1 << 16


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed file, or what is wrong with it as a whole."""

    tables: dict[str, object]
    problem: str | None


def read_manifest_file(top_level: str) -> ManifestFile:
    """`ninfer.toml` in the folder of the top-level package `top_level`."""
    locations = package_locations(top_level)
    if locations is None:
        return _failed(f"no module '{top_level}' can be found")
    for location in locations:
        path = Path(location, FILE_NAME)
        if path.is_file():
            return _parse(path)
    return _failed(f"package '{top_level}' has no {FILE_NAME}")


def manifest_of(file: ManifestFile, kind: str, name: str) -> tuple[Manifest | None, str | None]:
    """The table `[<kind>.<name>]` as (manifest, None), or (None, what is wrong)."""
    if file.problem is not None:
        return None, file.problem
    of_kind = file.tables.get(kind)
    table = of_kind.get(name) if isinstance(of_kind, Mapping) else None
    if not isinstance(table, Mapping):
        return None, f"{FILE_NAME} has no table [{kind}.{name}]"
    api = table.get("api")
    if type(api) is int and api != API_VERSION:
        # Fields of another API version mean nothing here: the version alone decides what is said about it.
        return Manifest(api=api, summary=str(table.get("summary", ""))), None
    try:
        manifest = msgspec.convert(table, Manifest)
    except msgspec.ValidationError as error:
        return None, f"{FILE_NAME} [{kind}.{name}]: {error}"
    unknown = sorted(set(manifest.devices) - DEVICES)
    if unknown:
        return None, f"{FILE_NAME} [{kind}.{name}]: devices may be cpu and cuda, not {', '.join(unknown)}"
    return manifest, None


def _parse(path: Path) -> ManifestFile:
    try:
        if path.stat().st_size > MAX_BYTES:
            return _failed(f"{FILE_NAME} is larger than {MAX_BYTES} bytes")
        return ManifestFile(tables=tomllib.loads(path.read_text("utf-8")), problem=None)
    except (OSError, ValueError, RecursionError) as error:
        return _failed(f"{FILE_NAME} cannot be read: {error}")


def _failed(problem: str) -> ManifestFile:
    return ManifestFile(tables={}, problem=problem)
