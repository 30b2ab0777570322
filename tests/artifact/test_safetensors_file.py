from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_core.api.artifact import DTYPE_BYTES
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.safetensors_file import (
    CODE_BY_DTYPE,
    DTYPE_BY_CODE,
    MAX_HEADER_BYTES,
    read_chunks,
    read_safetensors,
)
from ninfer_core.testing.toy_artifacts import toy_specs, write_safetensors

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


def problems_of(path: Path) -> str:
    with pytest.raises(ArtifactInvalid) as caught:
        read_safetensors(path)
    assert caught.value.code == "artifact_invalid"
    return "\n".join(caught.value.problems)


def entry(begin: int, end: int, shape: Any = None, dtype: Any = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def test_every_dtype_of_the_api_has_a_code() -> None:
    assert set(CODE_BY_DTYPE) == set(DTYPE_BYTES)


def test_a_file_of_the_safetensors_library_reads_the_same(tmp_path: Path) -> None:
    tensors = {
        f"t.{dtype}": torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype)) for dtype in DTYPE_BY_CODE.values()
    }
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.empty(0, 5)
    path = tmp_path / "m.safetensors"
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt", "note": "né"})
    file = read_safetensors(path)
    assert file.metadata == {"format": "pt", "note": "né"}
    assert {found.spec.name for found in file.tensors} == set(tensors)
    for found in file.tensors:
        tensor = tensors[found.spec.name]
        assert (found.spec.shape, found.spec.dtype) == (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        raw = b"".join(read_chunks(found))
        assert raw == bytes(tensor.reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize(
    ("header", "data", "said"),
    [
        (b"", b"", "not begin with '{'"),
        (b" {}", b"", "not begin with '{'"),
        (b"[]", b"", "not begin with '{'"),
        (b"{", b"", "not JSON"),
        (b'{"a": 1} x', b"", "not JSON"),
        (b'{"\xff": 1}', b"", "not UTF-8"),
        (b'{"a":' + b"[" * 100_000, b"", "nested too deeply"),
        (b'{"a":' + b"9" * 10_000 + b"}", b"", "not usable JSON"),
        ({"a": 3}, b"", "'a': needs exactly dtype, shape and data_offsets"),
        ({"a": {"dtype": "U8", "shape": [1]}}, b"", "needs exactly"),
        ({"a": {**entry(0, 1), "more": 1}}, b"x", "needs exactly"),
        ({"a": entry(0, 1, dtype="F3")}, b"x", "unknown dtype 'F3'"),
        ({"a": entry(0, 1, dtype=["F32"])}, b"x", "unknown dtype"),
        ({"a": entry(0, 1, shape=[-1])}, b"x", "'a': shape must be"),
        ({"a": entry(0, 1, shape=[True])}, b"x", "'a': shape must be"),
        ({"a": entry(0, 1, shape=[1.0])}, b"x", "'a': shape must be"),
        ({"a": entry(0, 1, shape=[1] * 9)}, b"x", "'a': shape must be"),
        ({"a": entry(0, 0, shape=[2**63])}, b"", "'a': shape must be"),
        ({"a": {**entry(0, 1), "data_offsets": [1, 0]}}, b"x", "in rising order"),
        ({"a": {**entry(0, 1), "data_offsets": [0]}}, b"x", "data_offsets must be"),
        ({"a": {**entry(0, 1), "data_offsets": "01"}}, b"x", "data_offsets must be"),
        ({"a": entry(0, 3, shape=[2])}, b"xxx", "[2] uint8 takes 2 bytes, its data_offsets [0, 3] hold 3"),
        ({"a": entry(0, 1, shape=[2**62, 2**62])}, b"x", "takes"),
        ({"a": entry(0, 2), "b": entry(1, 3)}, b"xxx", "'a' and 'b' overlap at data byte 1"),
        ({"a": entry(0, 4), "b": entry(1, 2), "c": entry(3, 5)}, b"x" * 5, "'a' and 'c' overlap at data byte 3"),
        ({"a": entry(0, 1), "b": entry(3, 4)}, b"xxxx", "data bytes 1 to 3 belong to no tensor"),
        ({"a": entry(0, 4)}, b"x", "holds 1 bytes of data where its header describes 4: it is truncated"),
        ({"a": entry(0, 1)}, b"xxx", "holds 3 bytes of data where its header describes 1"),
        ({"__metadata__": [], "a": entry(0, 1)}, b"x", "'__metadata__' is no object"),
        ({"__metadata__": {"k": 1}, "a": entry(0, 1)}, b"x", "member 'k' is no text"),
        (b'{"__metadata__":{"k":"\\ud800"}}', b"", "member 'k' is no text"),
        (b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', b"", "cannot be written as UTF-8"),
        (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":1}', b"x", "'a' is given twice"),
        (b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x", "'dtype' is given twice"),
    ],
)
def test_a_bad_header_is_refused_by_what_is_wrong(tmp_path: Path, header: Any, data: bytes, said: str) -> None:
    assert said in problems_of(write(tmp_path / "m.safetensors", header, data))


def test_all_problems_are_listed_together_and_bounded(tmp_path: Path) -> None:
    header = {"a": entry(0, 1, dtype="F3"), "b": entry(0, 1, shape=[-1]), "c": entry(0, 2), "d": entry(1, 3)}
    said = problems_of(write(tmp_path / "m.safetensors", header, b"xxx"))
    assert all(word in said for word in ("'a': unknown dtype", "'b': shape", "'c' and 'd' overlap"))
    many = {f"t{index}": entry(0, 1, dtype="F3") for index in range(500)}
    lines = problems_of(write(tmp_path / "n.safetensors", many, b"x")).splitlines()
    assert len(lines) == 41 and lines[-1] == "and 460 more"


def test_lengths_beyond_the_file_or_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"")
    assert "it has 0 bytes" in problems_of(path)
    path.write_bytes(b"1234567")
    assert "it has 7 bytes" in problems_of(path)
    assert "should have 9223372036854775808 bytes, but the file has 10" in problems_of(write(path, {}, length=2**63))
    with path.open("wb") as file:
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER_BYTES + 100)
    assert f"at most {MAX_HEADER_BYTES} are read" in problems_of(path)
    assert "cannot be read" in problems_of(tmp_path / "absent.safetensors")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs(1))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        problems_of(path)


def test_names_are_escaped_and_shortened_in_messages(tmp_path: Path) -> None:
    said = problems_of(write(tmp_path / "m.safetensors", {"\x1b[31m" + "n" * 500: 1}))
    assert "\x1b" not in said and len(said) < 200


@pytest.mark.parametrize("filler", [b"[[],", b'{"":{},', b'"\\u0000",'])
def test_memory_stays_in_proportion_to_a_hostile_header(tmp_path: Path, filler: bytes) -> None:
    raw = b'{"a":[' + filler * (256 * 1024 // len(filler))
    path = write(tmp_path / "m.safetensors", raw)
    tracemalloc.start()
    problems_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * len(raw)


@RELAXED
@given(data=st.data())
def test_random_damage_is_an_artifact_invalid_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs(1))
    raw = bytearray(path.read_bytes())
    header_end = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, header_end - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path.write_bytes(raw)
    try:
        file = read_safetensors(path)
    except ArtifactInvalid as invalid:
        str(invalid).encode()
        return
    # What we accept, the reference implementation accepts as well, and finds the same in it.
    with safetensors.safe_open(path, framework="pt") as reference:
        assert set(reference.keys()) == {found.spec.name for found in file.tensors}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F32", "BF16"]) | json_values,
        "shape": st.lists(st.integers(0, 4), max_size=3) | json_values,
        "data_offsets": st.lists(st.integers(0, 64), min_size=2, max_size=2).map(sorted) | json_values,
    }
)


@RELAXED
@given(header=st.dictionaries(st.text(max_size=6), entries | json_values, max_size=5), size=st.integers(0, 64))
def test_random_headers_are_an_artifact_invalid_or_tile_the_file(tmp_path: Path, header: Any, size: int) -> None:
    path = write(tmp_path / "m.safetensors", header, bytes(size))
    try:
        file = read_safetensors(path)
    except ArtifactInvalid:
        return
    assert sum(found.spec.bytes for found in file.tensors) == size
    safetensors.safe_open(path, framework="pt").__enter__()


def test_reading_a_tensor_of_a_file_that_became_shorter(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs(1))
    last = read_safetensors(path).tensors[-1]
    with path.open("rb+") as file:
        file.truncate(last.end - 5)
    with pytest.raises(ArtifactInvalid, match=r"ended 5 bytes before the end of .mtp\.proj\.weight"):
        list(read_chunks(last))
