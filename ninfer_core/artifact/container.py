"""The `.ninfer` container: one safetensors file that carries identity and frontend resources beside the weights.

docs/artifact.md has the format byte for byte. This module reads it; `writer.py` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ninfer_core.api.artifact import DRAFT_CONFIG, ArtifactHeader, ArtifactIdentity
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.handle import ArtifactHandle, FileStore, file_sizes
from ninfer_core.artifact.identity import name_problems, weights_problem
from ninfer_core.artifact.json_object import JsonRefused, json_object
from ninfer_core.artifact.safetensors_file import SafetensorsFile, StoredTensor, read_chunks, read_safetensors
from ninfer_core.artifact.wording import bounded, quoted

SUFFIX = ".ninfer"
FORMAT_VERSION = 1
RESOURCE_PREFIX = "frontend/"
MAX_RESOURCE_BYTES = 64 * 1024 * 1024
"""A tokenizer.json of 248 k pieces has 13 MB."""

REQUIRED_RESOURCES = ("config.json", "tokenizer.json", "chat_template.jinja")
OPTIONAL_RESOURCES = (
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    DRAFT_CONFIG,
)
RESOURCES = (*REQUIRED_RESOURCES, *OPTIONAL_RESOURCES)


def open_container(path: Path, source: str) -> ArtifactHandle:
    """Read and check everything but the weights' values. Raises ArtifactInvalid, listing all that is wrong."""
    file = read_safetensors(path)
    problems: list[str] = []
    identity = _identity(file.metadata, problems)
    resources = _resources(file, problems)
    config = _config(resources, problems)
    weights = {found.spec.name: found for found in file.tensors if not found.spec.name.startswith(RESOURCE_PREFIX)}
    if not weights:
        problems.append("it has no weights")
    elif identity is not None:
        problem = weights_problem(identity.weights_id, (found.spec for found in weights.values()))
        problems.extend(() if problem is None else (problem,))
    if problems or identity is None:
        raise ArtifactInvalid(source, bounded(problems))
    header = ArtifactHeader(
        source=source,
        identity=identity,
        config=config,
        resources=resources,
        tensors=tuple(found.spec for found in weights.values()),
        file_bytes=file_sizes(weights.values()),
    )
    return ArtifactHandle(header=header, notes=(), store=FileStore(source=source, tensors=weights))


def _identity(metadata: Mapping[str, str], problems: list[str]) -> ArtifactIdentity | None:
    names = ("format_version", "model_id", "weights_id", "family")
    absent = [name for name in names if not metadata.get(name)]
    problems.extend(f"'__metadata__' has no {name}" for name in absent)
    version = metadata.get("format_version", "")
    if version and version != str(FORMAT_VERSION):
        problems.append(f"it has format version {quoted(version)}; this ninfer reads version {FORMAT_VERSION}")
        return None
    if absent:
        return None
    identity = ArtifactIdentity(
        model_id=metadata["model_id"],
        weights_id=metadata["weights_id"],
        family=metadata["family"],
        format_version=FORMAT_VERSION,
    )
    problems.extend(name_problems(identity))
    return identity


def _resources(file: SafetensorsFile, problems: list[str]) -> dict[str, bytes]:
    resources: dict[str, bytes] = {}
    for found in file.tensors:
        if not found.spec.name.startswith(RESOURCE_PREFIX):
            continue
        name = found.spec.name.removeprefix(RESOURCE_PREFIX)
        problem = _resource_problem(name, found)
        if problem is None:
            resources[name] = b"".join(read_chunks(found))
        else:
            problems.append(f"resource {quoted(name)}: {problem}")
    stored = {found.spec.name for found in file.tensors}
    problems.extend(
        f"resource {name} is missing" for name in REQUIRED_RESOURCES if RESOURCE_PREFIX + name not in stored
    )
    return resources


def _resource_problem(name: str, found: StoredTensor) -> str | None:
    if name not in RESOURCES:
        return f"unknown; known: {', '.join(RESOURCES)}"
    if found.spec.dtype != "uint8" or len(found.spec.shape) != 1:
        return f"is {found.spec.dtype} {list(found.spec.shape)}, not one row of uint8"
    if found.spec.bytes > MAX_RESOURCE_BYTES:
        return f"has {found.spec.bytes} bytes; at most {MAX_RESOURCE_BYTES} are read"
    return None


def _config(resources: Mapping[str, bytes], problems: list[str]) -> dict[str, object]:
    if "config.json" not in resources:
        return {}
    try:
        return json_object(resources["config.json"])
    except JsonRefused as refused:
        problems.append(f"config.json: {refused}")
        return {}
