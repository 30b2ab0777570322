"""A Hugging Face model directory as an artifact: config.json, tokenizer files, sharded or single safetensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.container import MAX_RESOURCE_BYTES, RESOURCES, SUFFIX
from ninfer_core.artifact.handle import ArtifactHandle, FileStore, file_sizes
from ninfer_core.artifact.identity import MAX_NAME_CHARACTERS, weights_id_of
from ninfer_core.artifact.json_object import JsonRefused, encodable, json_object
from ninfer_core.artifact.shards import read_bounded, read_shards
from ninfer_core.artifact.wording import bounded, quoted, some

TEMPLATE = "chat_template.jinja"

QUANTISATION_METHODS = ("fp8", "modelopt", "compressed-tensors")
"""What `quant_method` may be. How a matrix is stored is read off its tensors, not off the method."""


def open_directory(path: Path, source: str) -> ArtifactHandle:
    """Raises ArtifactInvalid with everything that keeps the directory from being used.

    The identity has no family and format version 0: a directory does not say whose it is, its config does, and
    the families read that. A tokenizer or template that is missing is left to whoever needs it.
    """
    problems: list[str] = []
    resources = _resources(path, problems)
    if not (path / "config.json").exists():
        raise ArtifactInvalid(source, [_no_config(path)])
    config = _object(resources, "config.json", problems)
    _add_template(path, resources, problems)
    try:
        shards = read_shards(path, source)
    except ArtifactInvalid as invalid:
        raise ArtifactInvalid(source, bounded([*problems, *invalid.problems])) from None
    specs = tuple(found.spec for found in shards.tensors.values())
    problems.extend(_quantisation_problems(config))
    if problems:
        raise ArtifactInvalid(source, bounded(problems))
    identity = ArtifactIdentity(
        model_id=_model_id(path, config), weights_id=weights_id_of(specs), family="", format_version=0
    )
    header = ArtifactHeader(
        source=source,
        identity=identity,
        config=config,
        resources=resources,
        tensors=specs,
        notes=shards.notes,
        file_bytes=file_sizes(shards.tensors.values()),
    )
    return ArtifactHandle(header=header, notes=header.notes, store=FileStore(source=source, tensors=shards.tensors))


def _no_config(path: Path) -> str:
    containers = sorted(found.name for found in path.glob(f"*{SUFFIX}"))
    if containers:
        return f"it has no config.json, so it is no model directory; it holds {some(containers)}: name the file"
    return "it has no config.json, so it is no Hugging Face model directory"


def _resources(path: Path, problems: list[str]) -> dict[str, bytes]:
    resources = {}
    for name in RESOURCES:
        if (path / name).is_file():
            try:
                resources[name] = read_bounded(path / name, MAX_RESOURCE_BYTES)
            except JsonRefused as refused:
                problems.append(f"{name}: {refused}")
    return resources


def _add_template(path: Path, resources: dict[str, bytes], problems: list[str]) -> None:
    """Older directories keep the template inside tokenizer_config.json, some processors in chat_template.json."""
    if TEMPLATE in resources:
        return
    template = _object(resources, "tokenizer_config.json", problems).get("chat_template")
    if template is None and (path / "chat_template.json").is_file():
        try:
            holder = json_object(read_bounded(path / "chat_template.json", MAX_RESOURCE_BYTES))
        except JsonRefused as refused:
            problems.append(f"chat_template.json: {refused}")
            return
        template = holder.get("chat_template")
    if isinstance(template, list):
        # The form with several named templates; `default` is the one for plain chat.
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if isinstance(template, str) and encodable(template):
        resources[TEMPLATE] = template.encode("utf-8")
    elif template is not None:
        problems.append("chat_template is neither text nor a list with a template named 'default'")


def _object(resources: Mapping[str, bytes], name: str, problems: list[str]) -> dict[str, object]:
    if name not in resources:
        return {}
    try:
        return json_object(resources[name])
    except JsonRefused as refused:
        problems.append(f"{name}: {refused}")
        return {}


def _quantisation_problems(config: Mapping[str, object]) -> list[str]:
    """Methods that are not read are named here: their tensors alone would be a list of unknown names."""
    text_config = config.get("text_config")
    inner = text_config if isinstance(text_config, dict) else {}
    declared = config.get("quantization_config") or inner.get("quantization_config")
    if not declared:
        return []
    method = declared.get("quant_method", "unnamed") if isinstance(declared, dict) else "unnamed"
    if method in QUANTISATION_METHODS:
        return []
    known = ", ".join(QUANTISATION_METHODS)
    return [
        f"config.json declares quantisation method {quoted(str(method))}; those that are read are {known}, "
        "with weights in fp8 (e4m3) or nvfp4"
    ]


def _model_id(path: Path, config: Mapping[str, object]) -> str:
    """The directory's name; in a hub cache (`models--OWNER--NAME/snapshots/HASH`) the name of the repository."""
    resolved = path.resolve()
    cached = re.fullmatch(r"models--.+?--(.+)", resolved.parent.parent.name)
    if cached is not None and resolved.parent.name == "snapshots":
        return cached[1]
    named = config.get("_name_or_path")
    name = resolved.name or (named.rstrip("/").rsplit("/", 1)[-1] if isinstance(named, str) else "") or "model"
    # A file system takes names that no JSON can carry and no terminal should show.
    printable = (character if character.isprintable() else "?" for character in name)
    return "".join(printable)[:MAX_NAME_CHARACTERS]
