"""Turns a Hugging Face directory into a `.ninfer` container. Everything is checked before a byte is written."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.api.geometry import Geometry
from ninfer_core.api.stored_matrix import WeightsFormat
from ninfer_core.artifact.container import FORMAT_VERSION, REQUIRED_RESOURCES, SUFFIX
from ninfer_core.artifact.drafter import REPORTED_ACTIVATIONS, with_drafter
from ninfer_core.artifact.encoding import EncodingStore, encoded_artifact, encoding_problem, tensor_bytes
from ninfer_core.artifact.finite import finite_pieces
from ninfer_core.artifact.frontend import checked_frontend
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.inventory import whole_inventory
from ninfer_core.artifact.source import open_artifact
from ninfer_core.artifact.wording import bounded
from ninfer_core.artifact.writer import Chunks, write_container
from ninfer_core.plugins import LoadedPlugin, PluginRegistry, claiming_families


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    path: Path
    identity: ArtifactIdentity
    tensors: int
    bytes: int
    seconds: float
    notes: tuple[str, ...]


def convert_directory(
    source: str,
    output: Path,
    registry: PluginRegistry,
    *,
    model_id: str | None = None,
    weights: WeightsFormat | None = None,
    draft: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Conversion:
    """Tensors keep their names, their dtypes and their bytes, but for the matrices that `weights` has encoded; one
    matrix at a time is in memory. `draft` is the directory of a drafter that goes with it, as it is. `progress` is told
    (bytes done, bytes in all).

    Raises ArtifactInvalid for a source that is no complete model of exactly one installed family (every group
    that is there at all must be whole), for weights that cannot be had in that form or are no numbers and for an
    output that cannot be written; PluginBroken for a family plugin that fails.
    """
    begun = time.monotonic()
    _check_names(source, output)
    family, handle = _checked(_opened(source, draft, registry), registry, weights)
    total = handle.weight_bytes + sum(map(len, handle.header.resources.values()))
    _check_space(output, total)
    identity = msgspec.structs.replace(
        handle.header.identity,
        model_id=model_id or handle.header.identity.model_id,
        family=family.offer.name,
        format_version=FORMAT_VERSION,
    )
    written = _write(handle, output, identity, overwrite, lambda done: progress(done, total))
    return Conversion(
        path=output,
        identity=identity,
        tensors=len(handle.header.tensors),
        bytes=written,
        seconds=time.monotonic() - begun,
        notes=handle.notes,
    )


def _check_names(source: str, output: Path) -> None:
    if output.suffix != SUFFIX:
        raise ArtifactInvalid(str(output), [f"the name of a container ends in {SUFFIX}"])
    _check_directory(source)


def _opened(source: str, draft: str | None, registry: PluginRegistry) -> ArtifactHandle:
    stored = open_artifact(source, registry)
    if draft is None:
        return stored
    _check_directory(draft)
    return with_drafter(stored, open_artifact(draft, registry))


def _check_directory(source: str) -> None:
    if not Path(source).expanduser().is_dir():
        raise ArtifactInvalid(source, ["only a Hugging Face directory can be converted"])


def _checked(
    stored: ArtifactHandle, registry: PluginRegistry, weights: WeightsFormat | None
) -> tuple[LoadedPlugin, ArtifactHandle]:
    """Whose it is, and the artifact in the form that is wanted."""
    family = _only_family(registry, stored.header)
    handle = stored if weights is None else _encoded(stored, family, weights)
    _check(handle.header, family, registry)
    return family, handle


def _encoded(handle: ArtifactHandle, family: LoadedPlugin, weights: WeightsFormat) -> ArtifactHandle:
    problem = encoding_problem(handle.header, family, weights)
    if problem is not None:
        raise ArtifactInvalid(handle.header.source, [problem])
    return encoded_artifact(handle, family, weights)


def _only_family(registry: PluginRegistry, header: ArtifactHeader) -> LoadedPlugin:
    found = claiming_families(registry, header)
    if len(found.claims) == 1:
        return found.claims[0]
    if found.claims:
        named = ", ".join(plugin.offer.reference for plugin in found.claims)
        problem = f"several families claim it: {named}; NINFER_PLUGINS=PACKAGE keeps the others out"
    else:
        asked = ", ".join(sorted(offer.reference for offer in registry.offers("family"))) or "none is installed"
        kind = header.config.get("model_type", "absent")
        problem = f"no family knows it (model_type in config.json: {str(kind)[:60]!r}; families: {asked})"
    raise ArtifactInvalid(header.source, [problem, *(failure.message for failure in found.failures)])


def _check(header: ArtifactHeader, family: LoadedPlugin, registry: PluginRegistry) -> None:
    """Config, inventory and frontend as the family sees them, a drafter as its backend does. Raises ArtifactInvalid."""
    problems = [f"{name} is missing" for name in REQUIRED_RESOURCES if name not in header.resources]
    try:
        geometry: Geometry = family.hook.ninfer_family_geometry(header=header, activation_dtype=REPORTED_ACTIVATIONS)
        inventory = family.hook.ninfer_family_inventory(header=header)
    except ArtifactInvalid as invalid:
        raise ArtifactInvalid(header.source, [*problems, *invalid.problems]) from None
    problems.extend(whole_inventory(registry, header, geometry, inventory)[1])
    if problems:
        raise ArtifactInvalid(header.source, bounded(problems))
    checked_frontend(family, header, geometry)


def _check_space(output: Path, needed_bytes: int) -> None:
    if not output.parent.is_dir():
        return  # the writer says so, with whatever else is wrong
    free = shutil.disk_usage(output.parent).free
    if free < needed_bytes:
        raise ArtifactInvalid(str(output), [f"it needs {needed_bytes} bytes and {free} are free on its file system"])


def _write(
    handle: ArtifactHandle,
    output: Path,
    identity: ArtifactIdentity,
    overwrite: bool,
    done: Callable[[int], None],
) -> int:
    copied = 0

    def count(piece: int) -> None:
        nonlocal copied
        copied += piece
        done(copied)

    specs = {spec.name: spec for spec in handle.header.tensors}
    with handle.open_weights() as weights:
        # What is encoded is not stored anywhere, and its tensors belong together.
        encoded = isinstance(handle.store, EncodingStore)
        stored: Chunks = (lambda name: [tensor_bytes(weights, name)]) if encoded else handle.store.chunks
        return write_container(
            output,
            identity=identity,
            resources=handle.header.resources,
            tensors=handle.header.tensors,
            chunks=lambda name: finite_pieces(handle.header.source, specs[name], stored(name)),
            overwrite=overwrite,
            written=count,
        )
