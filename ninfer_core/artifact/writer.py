"""Writes a `.ninfer` container: streamed, under a temporary name, renamed when it is complete and on disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ninfer_core.api.artifact import DTYPE_BYTES, ArtifactIdentity, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.container import (
    FORMAT_VERSION,
    MAX_RESOURCE_BYTES,
    REQUIRED_RESOURCES,
    RESOURCE_PREFIX,
    RESOURCES,
)
from ninfer_core.artifact.identity import name_problem
from ninfer_core.artifact.json_object import encodable
from ninfer_core.artifact.safetensors_file import CODE_BY_DTYPE, MAX_HEADER_BYTES, PREFIX_BYTES
from ninfer_core.artifact.wording import quoted

DATA_ALIGNMENT = 4096
"""The data begins on a page of the file, so that it can be mapped and read directly."""

TENSOR_ALIGNMENT = 64

Chunks = Callable[[str], Iterable[bytes]]
"""The stored bytes of a tensor by name, in pieces."""


def write_container(
    path: Path,
    *,
    identity: ArtifactIdentity,
    resources: Mapping[str, bytes],
    tensors: Sequence[TensorSpec],
    chunks: Chunks,
    overwrite: bool = False,
    written: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the file and return its bytes. `written` is told of every piece (bytes), for progress.

    `path` appears complete or not at all; what was there stays until then. `chunks` is asked for one tensor at a
    time, so that no second copy of the weights is in memory. Raises ArtifactInvalid when the parts cannot make a
    valid container, when `path` exists and `overwrite` is not given, and when writing fails.
    """
    problems = _problems(path, identity, resources, tensors, overwrite)
    if problems:
        raise ArtifactInvalid(str(path), problems)
    ordered = in_file_order([*tensors, *(_resource_spec(name, data) for name, data in resources.items())])
    header = encoded_header(identity, ordered)
    if len(header) > PREFIX_BYTES + MAX_HEADER_BYTES:
        problem = f"its header would have {len(header)} bytes; at most {MAX_HEADER_BYTES} are read back"
        raise ArtifactInvalid(str(path), [problem])
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _removed_on_error(partial), partial.open("wb") as file:
            file.write(header)
            for spec in ordered:
                for piece in _checked(path, spec, _pieces(spec, resources, chunks)):
                    file.write(piece)
                    written(len(piece))
            file.flush()
            os.fsync(file.fileno())
            total = file.tell()
            partial.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise ArtifactInvalid(str(path), [f"it cannot be written: {error.strerror or error}"]) from None
    return total


def in_file_order(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Whole multiples of 64 bytes first, then by falling element size, resources last: the first keep 64-byte
    alignment without gaps (which safetensors does not allow), the rest their element's. Within that, layers in
    reading order."""

    def place(spec: TensorSpec) -> tuple[int, int, list[tuple[int, str]]]:
        if spec.name.startswith(RESOURCE_PREFIX):
            return 2, 0, _natural(spec.name)
        if spec.bytes % TENSOR_ALIGNMENT == 0:
            return 0, 0, _natural(spec.name)
        return 1, -DTYPE_BYTES[spec.dtype], _natural(spec.name)

    return sorted(specs, key=place)


def encoded_header(identity: ArtifactIdentity, ordered: Sequence[TensorSpec]) -> bytes:
    """Length and JSON, padded with spaces so that the data begins at a multiple of 4,096 bytes."""
    metadata = {
        "format_version": str(FORMAT_VERSION),
        "model_id": identity.model_id,
        "weights_id": identity.weights_id,
        "family": identity.family,
    }
    members: dict[str, object] = {"__metadata__": metadata}
    begin = 0
    for spec in ordered:
        offsets = [begin, begin + spec.bytes]
        members[spec.name] = {"dtype": CODE_BY_DTYPE[spec.dtype], "shape": list(spec.shape), "data_offsets": offsets}
        begin = offsets[1]
    raw = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    padded = -(-(PREFIX_BYTES + len(raw)) // DATA_ALIGNMENT) * DATA_ALIGNMENT - PREFIX_BYTES
    return padded.to_bytes(PREFIX_BYTES, "little") + raw.ljust(padded)


def _problems(
    path: Path,
    identity: ArtifactIdentity,
    resources: Mapping[str, bytes],
    tensors: Sequence[TensorSpec],
    overwrite: bool,
) -> list[str]:
    problems = []
    if path.is_dir():
        problems.append("it is a directory")
    elif path.exists() and not overwrite:
        problems.append("it exists; --force replaces it")
    if not path.parent.is_dir():
        problems.append(f"there is no directory {quoted(str(path.parent))}")
    members = {"model_id": identity.model_id, "weights_id": identity.weights_id, "family": identity.family}
    problems.extend(f"it would have no {name}" for name, value in members.items() if not value)
    problems.extend(f"{name} is no UTF-8: {quoted(value)}" for name, value in members.items() if not encodable(value))
    named = {name: value for name, value in members.items() if value and encodable(value)}
    problems.extend(f"{name} {problem}" for name, value in named.items() if (problem := name_problem(value)))
    problems.extend(f"it would have no {name}" for name in REQUIRED_RESOURCES if name not in resources)
    problems.extend(f"{quoted(name)} is no frontend resource" for name in resources if name not in RESOURCES)
    problems.extend(
        f"{name} has {len(data)} bytes; at most {MAX_RESOURCE_BYTES} are read back"
        for name, data in resources.items()
        if len(data) > MAX_RESOURCE_BYTES
    )
    if not tensors:
        problems.append("it would have no weights")
    uses = Counter(spec.name for spec in tensors)
    problems.extend(f"{quoted(name)} is given {count} times" for name, count in uses.items() if count > 1)
    problems.extend(f"the name {quoted(spec.name)} is no UTF-8" for spec in tensors if not encodable(spec.name))
    reserved = [spec.name for spec in tensors if spec.name.startswith(RESOURCE_PREFIX) or spec.name == "__metadata__"]
    problems.extend(f"the tensor name {quoted(name)} is reserved" for name in reserved)
    return problems


def _resource_spec(name: str, data: bytes) -> TensorSpec:
    return TensorSpec(name=RESOURCE_PREFIX + name, shape=(len(data),), dtype="uint8")


def _pieces(spec: TensorSpec, resources: Mapping[str, bytes], chunks: Chunks) -> Iterable[bytes]:
    if spec.name.startswith(RESOURCE_PREFIX):
        return [resources[spec.name.removeprefix(RESOURCE_PREFIX)]]
    return chunks(spec.name)


def _checked(path: Path, spec: TensorSpec, pieces: Iterable[bytes]) -> Iterator[bytes]:
    given = 0
    for piece in pieces:
        given += len(piece)
        yield piece
    if given != spec.bytes:
        raise ArtifactInvalid(str(path), [f"{quoted(spec.name)} came with {given} bytes instead of {spec.bytes}"])


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts `layers.10` after `layers.9`. Longer numbers are text: int() refuses thousands of digits."""
    return [(int(part), "") if re.fullmatch("[0-9]{1,9}", part) else (0, part) for part in re.split(r"([0-9]+)", name)]


@contextlib.contextmanager
def _removed_on_error(partial: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path) -> None:
    """Makes the new name durable; the data already is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
