"""Weights that are no numbers are refused by name, wherever they come through."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, StartFailed
from ninfer_core.api.stored_matrix import WeightsFormat
from ninfer_core.artifact import finite, open_artifact
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.artifact.finite import FLOAT_DTYPES, FiniteWeights, all_finite, count_nonfinite, finite_pieces
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tiny import tiny_artifact

CPU = torch.device("cpu")
NUMBERS = (float("nan"), float("inf"), float("-inf"))
UP_PROJECTION = "model.layers.0.mlp.up_proj.weight"


def spoilt(dtype: str, value: float, place: int, elements: int = 100) -> torch.Tensor:
    values = torch.linspace(-400, 400, elements).to(getattr(torch, dtype))
    values[place] = value
    return values


@pytest.mark.parametrize("dtype", sorted(FLOAT_DTYPES))
@pytest.mark.parametrize("place", [0, 37, 99])
def test_whatever_is_no_number_is_found(dtype: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "_PIECE_ELEMENTS", 30)
    assert all_finite(torch.linspace(-400, 400, 100).to(getattr(torch, dtype)))
    for value in NUMBERS:
        values = spoilt(dtype, value, place)
        if bool(values.float().isfinite().all()):
            assert dtype == "float8_e4m3fn", "only saturating codes have no infinity"
            continue
        assert not all_finite(values)
        assert count_nonfinite(values) == 1


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_both_codes_of_fp8_that_are_no_number(code: int) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    numbers = codes[(codes & 0x7F) != 0x7F]
    assert all_finite(numbers.view(torch.float8_e4m3fn))
    values = torch.cat([numbers, torch.tensor([code], dtype=torch.uint8)]).view(torch.float8_e4m3fn)
    assert not all_finite(values) and count_nonfinite(values) == 1


@pytest.mark.parametrize("piece_bytes", [1, 3, 8, 1000])
def test_bytes_pass_as_they_are_and_are_counted(piece_bytes: int) -> None:
    values = spoilt("bfloat16", float("nan"), 5)
    values[99] = float("inf")
    data = bytes(values.view(torch.uint8).tolist())
    pieces = [data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes)]
    spec = TensorSpec(name="a.weight", shape=(10, 10), dtype="bfloat16")
    passed: list[bytes] = []
    with pytest.raises(ArtifactInvalid, match=r"'a\.weight' holds 2 values of 100 that are NaN or infinite"):
        passed.extend(finite_pieces("a model", spec, pieces))
    assert b"".join(finite_pieces("a model", TensorSpec(name="a", shape=(200,), dtype="uint8"), pieces)) == data


class Spoilt:
    """The tiny model's weights with one value of one tensor replaced. Implements WeightSource."""

    def __init__(self, name: str, value: float) -> None:
        self._weights = tiny_artifact().open_weights()
        self._name, self._value = name, value

    def expect(self, names: Iterable[str]) -> None:
        self._weights.expect(names)

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        made = self._weights.read(name, device)
        if name == self._name:
            made.view(-1)[3] = self._value
        return made

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        out.copy_(self.read(name, out.device).view(-1)[start : start + out.numel()])


@pytest.mark.parametrize("value", NUMBERS)
def test_a_source_names_what_came_through_it(value: float) -> None:
    names = [spec.name for spec in tiny_artifact().header.tensors]
    weights = FiniteWeights("a model", Spoilt(UP_PROJECTION, value))
    for name in names:
        if name != UP_PROJECTION:
            weights.read(name, CPU)
    weights.check()
    out = torch.empty(8)
    weights.read_into(UP_PROJECTION, out, 4)
    weights.check()  # the part that was read is well
    weights.read_into(UP_PROJECTION, out, 0)
    with pytest.raises(ArtifactInvalid) as caught:
        weights.check()
    (problem,) = caught.value.problems
    assert problem.startswith(f"'{UP_PROJECTION}' holds 1 values of ") and "get the file again" in problem


class SpoiltOnce(Spoilt):
    """What went wrong on the way is well the next time."""

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        made = super().read(name, device)
        if name == self._name:
            self._name = ""
        return made


def test_what_is_well_when_it_is_read_again_is_not_called_the_artifacts_fault() -> None:
    weights = FiniteWeights("a model", SpoiltOnce(UP_PROJECTION, float("nan")))
    weights.read(UP_PROJECTION, CPU)
    with pytest.raises(StartFailed, match=r"weights of a model were NaN .* none are when they are read again"):
        weights.check()


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("name", [UP_PROJECTION, "model.norm.weight"])
def test_nothing_is_converted_that_is_no_number(
    tmp_path: Path, weights: WeightsFormat, value: float, name: str
) -> None:
    directory, output = write_spoilt_directory(tmp_path / "model", name, value), tmp_path / "out.ninfer"
    with pytest.raises(ArtifactInvalid) as caught:
        convert_directory(str(directory), output, PluginRegistry.discover(), weights=weights)
    (problem,) = caught.value.problems
    assert problem.startswith(f"'{name}' holds 1 values of ")
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "nothing is left of the output"
    assert open_artifact(str(directory), PluginRegistry.discover()).header.tensors, "its header is well"


def write_spoilt_directory(folder: Path, name: str, value: float) -> Path:
    """The tiny model as a Hugging Face directory, with one value of one tensor replaced."""
    from safetensors.torch import save_file

    handle, source = tiny_artifact(), Spoilt(name, value)
    folder.mkdir()
    for resource, data in handle.header.resources.items():
        (folder / resource).write_bytes(data)
    save_file({spec.name: source.read(spec.name, CPU) for spec in handle.header.tensors}, folder / "model.safetensors")
    return folder
