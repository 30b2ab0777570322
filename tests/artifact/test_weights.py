from __future__ import annotations

import gc
from pathlib import Path

import pytest
import safetensors.torch
import torch

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.safetensors_file import DTYPE_BY_CODE, StoredTensor, read_safetensors
from ninfer_core.artifact.weights import FileWeights
from ninfer_core.testing.toy_artifacts import toy_specs, write_safetensors

CPU = torch.device("cpu")


def stored(*paths: Path) -> dict[str, StoredTensor]:
    return {found.spec.name: found for path in paths for found in read_safetensors(path).tensors}


def test_values_shapes_and_dtypes_from_several_files(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tensors = {
        dtype: torch.randint(0, 2, (3, 5), generator=generator).to(getattr(torch, dtype))
        for dtype in DTYPE_BY_CODE.values()
    }
    others = {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4)}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    safetensors.torch.save_file(others, tmp_path / "b.safetensors")
    with FileWeights("m", stored(tmp_path / "a.safetensors", tmp_path / "b.safetensors")) as weights:
        for name, tensor in {**tensors, **others}.items():
            read = weights.read(name, CPU)
            assert read.dtype == tensor.dtype and read.shape == tensor.shape and torch.equal(read, tensor)


def test_a_file_that_does_not_align_its_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    specs = [TensorSpec(name="a", shape=(1,), dtype="uint8"), TensorSpec(name="b", shape=(4,), dtype="float32")]
    write_safetensors(path, specs)
    tensors = stored(path)
    read = FileWeights("m", tensors).read("b", CPU)
    assert read.data_ptr() % 4 == 0
    raw = path.read_bytes()[tensors["b"].begin : tensors["b"].end]
    assert bytes(read.view(torch.uint8).tolist()) == raw


def test_the_reader_owns_its_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs())
    before = path.read_bytes()
    weights = FileWeights("m", stored(path))
    first = weights.read("embed.weight", CPU)
    kept = first.clone().view(torch.uint8)
    first.zero_()
    second = weights.read("embed.weight", CPU)
    assert torch.equal(second.view(torch.uint8), kept) and path.read_bytes() == before
    weights.close()
    weights.close()
    path.unlink()
    gc.collect()
    assert torch.equal(second.view(torch.uint8), kept)


def test_closing_gives_descriptors_back(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs())
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = []
    for _ in range(20):
        with FileWeights("m", stored(path)) as weights:
            kept.append(weights.read("embed.weight", CPU))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_unknown_name_comes_with_a_near_miss(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs())
    with pytest.raises(ArtifactInvalid, match=r"no tensor 'embed\.wieght'; did you mean 'embed\.weight'"):
        FileWeights("m", stored(path)).read("embed.wieght", CPU)


def test_a_file_that_changed_since_its_header_was_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs())
    tensors = stored(path)
    with path.open("rb+") as file:
        file.truncate(100)
    with pytest.raises(ArtifactInvalid, match="it has 100 bytes now"):
        FileWeights("m", tensors).read("embed.weight", CPU)
    path.unlink()
    with pytest.raises(ArtifactInvalid, match="cannot be read"):
        FileWeights("m", tensors).read("embed.weight", CPU)


@pytest.mark.filterwarnings("error")
def test_reading_warns_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, toy_specs())
    FileWeights("m", stored(path)).read("embed.weight", CPU)
