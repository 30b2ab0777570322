from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import safetensors
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_core.api.artifact import ArtifactIdentity, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import writer
from ninfer_core.artifact.container import open_container
from ninfer_core.artifact.safetensors_file import DTYPE_BY_CODE, read_safetensors
from ninfer_core.artifact.writer import DATA_ALIGNMENT, TENSOR_ALIGNMENT, in_file_order, write_container
from ninfer_core.testing.toy_artifacts import RESOURCES, toy_bytes, toy_specs

IDENTITY = ArtifactIdentity(model_id="toy/é", weights_id="bf16", family="toy", format_version=1)
ALL_RESOURCES = {**RESOURCES, "config.json": b'{"model_type": "toy"}'}


def write(path: Path, specs: list[TensorSpec], **changes: object) -> int:
    by_name = {spec.name: spec for spec in specs}
    arguments: dict[str, object] = {
        "identity": IDENTITY,
        "resources": ALL_RESOURCES,
        "tensors": specs,
        "chunks": lambda name: iter([toy_bytes(by_name[name])]),
        **changes,
    }
    return write_container(path, **arguments)  # type: ignore[arg-type]


def test_what_was_written_reads_back_and_the_safetensors_library_agrees(tmp_path: Path) -> None:
    specs = [
        TensorSpec(name=f"t.{index}", shape=(3, index), dtype=dtype)
        for index, dtype in enumerate(DTYPE_BY_CODE.values())
    ]
    specs.append(TensorSpec(name="scalar", shape=(), dtype="float32"))
    specs.append(TensorSpec(name="most", shape=(512,), dtype="bfloat16"))
    path = tmp_path / "m.ninfer"
    assert write(path, specs) == path.stat().st_size
    header = open_container(path, "m.ninfer").header
    assert header.identity == IDENTITY and header.resources == ALL_RESOURCES and header.config == {"model_type": "toy"}
    assert sorted(header.tensors, key=lambda spec: spec.name) == sorted(specs, key=lambda spec: spec.name)
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.metadata()["model_id"] == "toy/é"
        assert set(file.keys()) == {spec.name for spec in specs} | {f"frontend/{name}" for name in ALL_RESOURCES}
        for spec in specs:
            assert bytes(file.get_tensor(spec.name).reshape(-1).view(torch.uint8).tolist()) == toy_bytes(spec)
        for name, data in ALL_RESOURCES.items():
            assert bytes(file.get_tensor(f"frontend/{name}").tolist()) == data


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shapes=st.lists(
        st.tuples(st.lists(st.integers(0, 9), max_size=3), st.sampled_from(list(DTYPE_BY_CODE.values()))),
        min_size=1,
        max_size=12,
    )
)
def test_alignment_without_gaps_for_any_shapes(tmp_path: Path, shapes: list[tuple[list[int], str]]) -> None:
    specs = [TensorSpec(name=f"x{i}", shape=tuple(shape), dtype=dtype) for i, (shape, dtype) in enumerate(shapes)]
    path = tmp_path / "m.ninfer"
    write(path, specs, overwrite=True)
    stored = read_safetensors(path).tensors
    assert stored[0].begin % DATA_ALIGNMENT == 0
    places = [found.spec.name.startswith("frontend/") for found in stored]
    assert places == sorted(places)
    for found in stored:
        element = found.spec.bytes // max(found.spec.elements, 1)
        whole = found.spec.bytes % TENSOR_ALIGNMENT == 0 and not found.spec.name.startswith("frontend/")
        assert found.begin % (TENSOR_ALIGNMENT if whole else max(element, 1)) == 0


def test_layers_are_in_reading_order() -> None:
    names = [f"layers.{layer}.w" for layer in (10, 2, 9, 1)]
    ordered = in_file_order([TensorSpec(name=name, shape=(32,), dtype="bfloat16") for name in names])
    assert [spec.name for spec in ordered] == [f"layers.{layer}.w" for layer in (1, 2, 9, 10)]


def test_tensors_are_asked_for_one_at_a_time_and_in_file_order(tmp_path: Path) -> None:
    specs = toy_specs(3)
    asked: list[str] = []
    open_now: list[str] = []

    def chunks(name: str) -> Iterator[bytes]:
        assert not open_now
        asked.append(name)
        open_now.append(name)
        data = toy_bytes(next(spec for spec in specs if spec.name == name))
        yield data[:3]
        yield data[3:]
        open_now.remove(name)

    told: list[int] = []
    write(tmp_path / "m.ninfer", specs, chunks=chunks, written=told.append)
    assert asked == [spec.name for spec in in_file_order(specs)]
    assert sum(told) == sum(spec.bytes for spec in specs) + sum(map(len, ALL_RESOURCES.values()))


class Broken(Exception):
    pass


@pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "m.ninfer"
    path.write_bytes(b"old")

    def chunks(name: str) -> Iterator[bytes]:
        yield b"12"
        raise error

    expected = ArtifactInvalid if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write(path, toy_specs(), chunks=chunks, overwrite=True)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_tensor_with_other_bytes_than_its_shape_takes(tmp_path: Path) -> None:
    with pytest.raises(ArtifactInvalid, match="came with 2 bytes instead of 256"):
        write(tmp_path / "m.ninfer", toy_specs(), chunks=lambda name: iter([b"12"]))
    assert list(tmp_path.iterdir()) == []


def test_everything_that_cannot_make_a_container_is_listed_before_a_byte_is_written(tmp_path: Path) -> None:
    path = tmp_path / "m.ninfer"
    path.write_bytes(b"old")
    spec = TensorSpec(name="frontend/x", shape=(1,), dtype="uint8")
    identity = msgspec.structs.replace(IDENTITY, model_id="")
    with pytest.raises(ArtifactInvalid) as caught:
        write(path, [spec, spec], identity=identity, resources={"other.txt": b""})
    assert list(caught.value.problems) == [
        "it exists; --force replaces it",
        "it would have no model_id",
        "it would have no config.json",
        "it would have no tokenizer.json",
        "it would have no chat_template.jinja",
        "'other.txt' is no frontend resource",
        "'frontend/x' is given 2 times",
        "the tensor name 'frontend/x' is reserved",
        "the tensor name 'frontend/x' is reserved",
    ]
    assert path.read_bytes() == b"old"
    with pytest.raises(ArtifactInvalid, match="there is no directory"):
        write(tmp_path / "absent" / "m.ninfer", toy_specs())
    with pytest.raises(ArtifactInvalid, match="it would have no weights"):
        write(tmp_path / "n.ninfer", [])


def test_names_no_header_can_carry_or_no_sort_can_compare(tmp_path: Path) -> None:
    with pytest.raises(ArtifactInvalid, match="model_id is no UTF-8"):
        write(tmp_path / "m.ninfer", toy_specs(), identity=msgspec.structs.replace(IDENTITY, model_id="\udcff"))
    names = ["9" * 5000, "x.10", "x.9", "", "10", "x.\u0663"]
    specs = [TensorSpec(name=name, shape=(32,), dtype="bfloat16") for name in names]
    write(tmp_path / "m.ninfer", specs)
    assert {spec.name for spec in open_container(tmp_path / "m.ninfer", "m").header.tensors} == set(names)


def test_a_resource_that_no_reader_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_RESOURCE_BYTES", 20)
    with pytest.raises(ArtifactInvalid, match=r"config\.json has 21 bytes; at most 20 are read back"):
        write(tmp_path / "m.ninfer", toy_specs())


def test_no_name_is_written_that_would_not_be_read(tmp_path: Path) -> None:
    identity = msgspec.structs.replace(IDENTITY, model_id="m" * 201)
    with pytest.raises(ArtifactInvalid, match="model_id has 201 characters; at most 200 are allowed"):
        write(tmp_path / "m.ninfer", toy_specs(), identity=identity)
