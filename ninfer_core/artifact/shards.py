"""Which safetensors files of a Hugging Face directory hold the model, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.json_object import JsonRefused, json_object
from ninfer_core.artifact.safetensors_file import SafetensorsFile, StoredTensor, read_safetensors
from ninfer_core.artifact.wording import bounded, quoted, some

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_INDEX_BYTES = 64 * 1024 * 1024


class Shards(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of a directory by name, in the order of files and data, and remarks on files left out."""

    tensors: dict[str, StoredTensor]
    notes: tuple[str, ...]


def read_shards(directory: Path, source: str) -> Shards:
    """Follow the index where there is one, else take the single file.

    Raises ArtifactInvalid with the problems of all files together: absent, invalid, tensors that the index
    promises and the file lacks, or that two files hold.
    """
    present = {path.name: path for path in sorted(directory.glob("*.safetensors"))}
    problems: list[str] = []
    file_by_tensor = _weight_map(directory, problems)
    names = sorted(set(file_by_tensor.values())) if file_by_tensor is not None else _without_index(present, problems)
    absent = [name for name in names if name not in present]
    problems.extend(f"{name}, which {INDEX} names, is not in the directory" for name in absent)
    files = _read([present[name] for name in names if name in present], problems)
    tensors = _tensors(files, problems)
    if file_by_tensor is not None:
        problems.extend(_disagreements(file_by_tensor, files))
    if problems:
        raise ArtifactInvalid(source, bounded(problems))
    left_out = [path for name, path in present.items() if name not in names]
    return Shards(tensors=tensors, notes=tuple(_notes(left_out, tensors)))


def _weight_map(directory: Path, problems: list[str]) -> dict[str, str] | None:
    """File by tensor as the index has it; None without an index."""
    path = directory / INDEX
    if not path.exists():
        return None
    try:
        weight_map = json_object(read_bounded(path, MAX_INDEX_BYTES)).get("weight_map")
    except JsonRefused as refused:
        problems.append(f"{INDEX}: {refused}")
        return {}
    if not isinstance(weight_map, dict) or not weight_map:
        problems.append(f"{INDEX} has no weight_map")
        return {}
    # A shard lies beside its index: a path could lead anywhere.
    bad = sorted({str(file) for file in weight_map.values() if not _is_file_name(file)})
    problems.extend(f"{INDEX} names {quoted(name)}, which is no file of the directory" for name in bad)
    return {name: file for name, file in weight_map.items() if _is_file_name(file)}


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and "/" not in name and "\\" not in name


def _without_index(present: Mapping[str, Path], problems: list[str]) -> list[str]:
    if SINGLE in present:
        return [SINGLE]
    if len(present) == 1:
        return list(present)
    if present:
        problems.append(f"it has {len(present)} .safetensors files ({some(list(present))}) and no {INDEX}")
    else:
        problems.append("it has no .safetensors file; weights in other formats are not read")
    return []


def _read(paths: Iterable[Path], problems: list[str]) -> list[SafetensorsFile]:
    files = []
    for path in paths:
        try:
            files.append(read_safetensors(path))
        except ArtifactInvalid as invalid:
            problems.extend(f"{path.name}: {problem}" for problem in invalid.problems)
    return files


def _tensors(files: Iterable[SafetensorsFile], problems: list[str]) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        for found in file.tensors:
            first = tensors.setdefault(found.spec.name, found)
            if first is not found:
                problems.append(f"{quoted(found.spec.name)} is in {first.path.name} and in {found.path.name}")
    return tensors


def _disagreements(file_by_tensor: Mapping[str, str], files: Iterable[SafetensorsFile]) -> list[str]:
    problems = []
    for file in files:
        promised = {name for name, holder in file_by_tensor.items() if holder == file.path.name}
        held = {found.spec.name for found in file.tensors}
        if promised - held:
            problems.append(f"{file.path.name} lacks {some(sorted(promised - held))}, which {INDEX} says it holds")
        if held - promised:
            problems.append(f"{file.path.name} holds {some(sorted(held - promised))}, which {INDEX} does not say")
    return problems


def _notes(left_out: Iterable[Path], tensors: Mapping[str, StoredTensor]) -> Iterable[str]:
    for path in left_out:
        try:
            unknown = [found.spec.name for found in read_safetensors(path).tensors if found.spec.name not in tensors]
        except ArtifactInvalid as invalid:
            yield f"{path.name} is left out: no index names it, and it is not valid ({invalid.problems[0]})"
            continue
        if unknown:
            yield f"{path.name} is left out: no index names it; only there are {some(unknown)}"


def read_bounded(path: Path, limit_bytes: int) -> bytes:
    """All bytes of a file. Raises JsonRefused when there are more than `limit_bytes` or it cannot be read."""
    if not path.is_file():
        raise JsonRefused("is no regular file")
    try:
        with path.open("rb") as file:
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise JsonRefused(f"cannot be read: {error.strerror or error}") from None
    if len(raw) > limit_bytes:
        raise JsonRefused(f"has more than {limit_bytes} bytes")
    return raw
