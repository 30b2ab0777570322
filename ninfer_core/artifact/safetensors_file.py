"""The header of one safetensors file: read with bounds, checked completely, without torch and without the data.

Layout (docs/artifact.md): 8 bytes little-endian length N, N bytes of JSON, then the tensors without gaps.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.json_object import JsonRefused, encodable, json_object
from ninfer_core.artifact.wording import bounded, quoted

PREFIX_BYTES = 8
MAX_HEADER_BYTES = 16 * 1024 * 1024
"""A 35B model with every expert on its own needs 5 MB. The bound keeps a hostile header from filling memory."""

MAX_DIMENSIONS = 8

DTYPE_BY_CODE: Mapping[str, str] = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "I64": "int64",
    "I32": "int32",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""The file's dtype codes and torch's names of them."""

CODE_BY_DTYPE: Mapping[str, str] = {dtype: code for code, dtype in DTYPE_BY_CODE.items()}

_CHUNK_BYTES = 8 * 1024 * 1024


class StoredTensor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tensor's bytes are: `[begin, end)` of the file at `path`, which had `file_bytes` bytes when read."""

    spec: TensorSpec
    path: Path
    file_bytes: int
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.spec.bytes


class SafetensorsFile(msgspec.Struct, frozen=True, kw_only=True):
    """A valid file. `tensors` are in the order of their data."""

    path: Path
    metadata: dict[str, str]
    tensors: tuple[StoredTensor, ...]


def read_safetensors(path: Path) -> SafetensorsFile:
    """Raises ArtifactInvalid with everything that is wrong with the header, and when the file cannot be read."""
    if path.exists() and not path.is_file():
        raise ArtifactInvalid(str(path), ["it is no regular file"])
    try:
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            length = _header_length(path, file.read(PREFIX_BYTES), file_bytes)
            raw = file.read(length)
    except OSError as error:
        raise ArtifactInvalid(str(path), [f"it cannot be read: {error.strerror or error}"]) from None
    data_begin = PREFIX_BYTES + length
    metadata, ranges = _parsed(path, raw, file_bytes - data_begin)
    tensors = tuple(
        StoredTensor(spec=spec, path=path, file_bytes=file_bytes, begin=data_begin + begin) for spec, begin in ranges
    )
    return SafetensorsFile(path=path, metadata=metadata, tensors=tensors)


def read_chunks(tensor: StoredTensor) -> Iterator[bytes]:
    """The tensor's bytes in pieces of a few MiB. Raises ArtifactInvalid when the file has become shorter."""
    try:
        with tensor.path.open("rb") as file:
            file.seek(tensor.begin)
            left = tensor.spec.bytes
            while left:
                chunk = file.read(min(left, _CHUNK_BYTES))
                if not chunk:
                    raise ArtifactInvalid(
                        str(tensor.path), [f"it ended {left} bytes before the end of {quoted(tensor.spec.name)}"]
                    )
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise ArtifactInvalid(str(tensor.path), [f"it cannot be read: {error.strerror or error}"]) from None


def open_unchanged(tensor: StoredTensor) -> int:
    """A descriptor of the tensor's file, which the caller closes. Raises ArtifactInvalid when it cannot be read, or has
    another size than when its header was read."""
    try:
        descriptor = os.open(tensor.path, os.O_RDONLY)
    except OSError as error:
        raise ArtifactInvalid(str(tensor.path), [f"it cannot be read: {error.strerror or error}"]) from None
    now = os.fstat(descriptor).st_size
    if now != tensor.file_bytes:
        os.close(descriptor)
        message = f"it has {now} bytes now and had {tensor.file_bytes} when its header was read"
        raise ArtifactInvalid(str(tensor.path), [message])
    return descriptor


def _header_length(path: Path, prefix: bytes, file_bytes: int) -> int:
    if len(prefix) < PREFIX_BYTES:
        raise ArtifactInvalid(str(path), [f"it has {file_bytes} bytes; a header alone needs more than {PREFIX_BYTES}"])
    (length,) = struct.unpack("<Q", prefix)
    problems = []
    if length > file_bytes - PREFIX_BYTES:
        problems.append(f"its header should have {length} bytes, but the file has {file_bytes} in all")
    if length > MAX_HEADER_BYTES:
        problems.append(f"its header should have {length} bytes; at most {MAX_HEADER_BYTES} are read")
    if problems:
        raise ArtifactInvalid(str(path), problems)
    return int(length)


def _parsed(path: Path, raw: bytes, data_bytes: int) -> tuple[dict[str, str], list[tuple[TensorSpec, int]]]:
    """Metadata, and every tensor with its offset in the data, in the order of the data."""
    duplicates: list[str] = []
    try:
        if not raw.startswith(b"{"):
            raise JsonRefused("does not begin with '{'")
        members = json_object(raw, duplicates)
    except JsonRefused as refused:
        raise ArtifactInvalid(str(path), [f"its header: {refused}"]) from None
    problems = [f"{quoted(name)} is given twice" for name in duplicates]
    metadata = _metadata(members.pop("__metadata__", {}), problems)
    ranges: list[tuple[TensorSpec, int]] = []
    for name, entry in members.items():
        found = _entry(name, entry, problems)
        if found is not None:
            ranges.append(found)
    ranges.sort(key=lambda found: (found[1], found[1] + found[0].bytes))
    whole = len(ranges) == len(members)
    problems.extend(_layout_problems(ranges, data_bytes, whole))
    if problems:
        raise ArtifactInvalid(str(path), bounded(problems))
    return metadata, ranges


def _metadata(value: object, problems: list[str]) -> dict[str, str]:
    if not isinstance(value, dict):
        problems.append("'__metadata__' is no object")
        return {}
    texts = {name: text for name, text in value.items() if isinstance(text, str) and encodable(name + text)}
    problems.extend(f"'__metadata__' member {quoted(name)} is no text" for name in value if name not in texts)
    return texts


def _entry(name: str, entry: Any, problems: list[str]) -> tuple[TensorSpec, int] | None:
    """One tensor and its offset in the data, or None with its problems listed."""
    label = quoted(name)
    if not encodable(name):
        problems.append(f"{label}: the name cannot be written as UTF-8")
        return None
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        problems.append(f"{label}: needs exactly dtype, shape and data_offsets")
        return None
    shape, offsets = entry["shape"], entry["data_offsets"]
    wrong = []
    dtype = DTYPE_BY_CODE.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        wrong.append(f"{label}: unknown dtype {quoted(str(entry['dtype']))}; known: {', '.join(DTYPE_BY_CODE)}")
    if not _counts(shape) or len(shape) > MAX_DIMENSIONS:
        wrong.append(f"{label}: shape must be at most {MAX_DIMENSIONS} integers from 0")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        wrong.append(f"{label}: data_offsets must be two integers from 0 in rising order")
    problems.extend(wrong)
    if wrong or dtype is None:
        return None
    spec = TensorSpec(name=name, shape=tuple(shape), dtype=dtype)
    if spec.bytes != offsets[1] - offsets[0]:
        size = f"{list(spec.shape)} {dtype} takes {spec.bytes} bytes"
        problems.append(f"{label}: {size}, its data_offsets {offsets} hold {offsets[1] - offsets[0]}")
        return None
    return spec, offsets[0]


def _counts(value: object) -> bool:
    """Whether it is a list of integers from 0 that fit in 63 bits; `true` is no integer."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _layout_problems(ranges: Iterable[tuple[TensorSpec, int]], data_bytes: int, whole: bool) -> list[str]:
    """Overlaps, ranges outside the file and, when every range is known (`whole`), bytes that belong to no tensor."""
    problems: list[str] = []
    covered, owner, outside = 0, "", 0
    for spec, begin in ranges:
        end = begin + spec.bytes
        outside += end > data_bytes
        if begin < covered and end > begin:
            problems.append(f"{quoted(owner)} and {quoted(spec.name)} overlap at data byte {begin}")
        elif begin > covered and whole:
            problems.append(f"data bytes {covered} to {begin} belong to no tensor")
        if end > covered:
            covered, owner = end, spec.name
    if outside:
        held = f"the file holds {data_bytes} bytes of data where its header describes {covered}"
        problems.insert(0, f"{held}: it is truncated, {outside} tensors end beyond it")
    elif covered < data_bytes and whole:
        problems.append(f"the file holds {data_bytes} bytes of data where its header describes {covered}")
    return problems
