from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import torch

from ninfer_core.api import ExecutionPlan
from ninfer_core.api.artifact import WeightSource
from ninfer_core.api.errors import ArtifactInvalid, PluginBroken, StartFailed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import SMALL_WEIGHTS_BYTES, ModelNotFinite, build_program, remedied, settle_threads
from ninfer_core.testing.plugins import write_plugin_package
from ninfer_core.testing.tiny import tiny_artifact, tiny_header, tiny_plan

BENT = """
from ninfer_core.api import KVLayout, KVPlane, hookimpl

class Codec:
    def __init__(self, layout): self.layout = layout
    def encode(self, part, values): return (values.float(), values.float())
    def decode(self, part, planes, dtype): return planes[0].to(dtype)

@hookimpl
def ninfer_kv_layout(head_dim):
    planes = [KVPlane(part=part, name="x", dtype="float32", elements=head_dim) for part in ("key", "value")]
    return KVLayout(planes=tuple(planes))

@hookimpl
def ninfer_kv_codec(layout): return Codec(layout)
"""


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def plan_with(registry: PluginRegistry, weights_bytes: int) -> ExecutionPlan:
    plan = tiny_plan(registry, tiny_header(), max_context=256)
    lines = [
        msgspec.structs.replace(line, bytes=weights_bytes) if line.name == "weights" else line
        for line in plan.ledger.lines
    ]
    return msgspec.structs.replace(plan, ledger=msgspec.structs.replace(plan.ledger, lines=tuple(lines)))


@pytest.mark.parametrize(
    ("weights_bytes", "device", "environment", "threads"),
    [
        (SMALL_WEIGHTS_BYTES, "cpu", {}, 1),
        (SMALL_WEIGHTS_BYTES, "cpu", {"OMP_NUM_THREADS": "2"}, 2),
        (SMALL_WEIGHTS_BYTES + 1, "cpu", {}, 2),
        (SMALL_WEIGHTS_BYTES, "cuda", {}, 2),
    ],
)
@pytest.mark.usefixtures("two_threads")
def test_small_models_run_on_one_thread(
    registry: PluginRegistry, weights_bytes: int, device: str, environment: dict[str, str], threads: int
) -> None:
    settle_threads(plan_with(registry, weights_bytes), torch.device(device), environment)
    assert torch.get_num_threads() == threads


def test_what_keeps_a_start_from_going_on_comes_with_a_way_out() -> None:
    words = r"cannot be captured \(RuntimeError: operation not permitted\); --no-cuda"
    with pytest.raises(StartFailed, match=words), remedied("rounds cannot be captured", "--no-cuda-graph"):
        raise RuntimeError("operation not permitted")
    for ours in (StartFailed("no memory"), torch.OutOfMemoryError("no memory"), AssertionError("no memory")):
        with pytest.raises(type(ours), match="no memory"), remedied("it", "something else"):
            raise ours


def test_a_codec_that_does_not_keep_to_its_layout_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin_package(tmp_path, "build-bent", {"kv:bent": BENT})
    registry, artifact = PluginRegistry.discover(), tiny_artifact()
    plan = tiny_plan(registry, artifact.header, max_context=256, kv_dtype="bent")
    words = "kv plugin 'bent' from build-bent 1.0 gave back something wrong from its codec's encode of a key: 2 tensors"
    with artifact.open_weights() as weights, pytest.raises(PluginBroken, match=words):
        build_program(plan, artifact.header, weights, registry, torch.device("cpu"), lambda name, seconds: None)


NORM = "model.norm.weight"


@dataclass(frozen=True)
class Changed:
    """Weights of which one tensor is changed as it is read. Implements WeightSource."""

    weights: WeightSource
    name: str
    change: Callable[[torch.Tensor], torch.Tensor]

    def expect(self, names: object) -> None:
        return

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        made = self.weights.read(name, device)
        return self.change(made) if name == self.name else made

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        out.copy_(self.read(name, out.device).view(-1)[start : start + out.numel()])


def start_with(registry: PluginRegistry, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    artifact = tiny_artifact()
    plan = tiny_plan(registry, artifact.header, max_context=256)
    with artifact.open_weights() as weights:
        changed = Changed(weights, name, change)
        build_program(plan, artifact.header, changed, registry, torch.device("cpu"), lambda name, seconds: None)


@pytest.mark.parametrize("name", [NORM, "model.layers.0.mlp.up_proj.weight", "model.layers.3.self_attn.k_norm.weight"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_model_with_a_weight_that_is_no_number_does_not_start(
    registry: PluginRegistry, name: str, value: float
) -> None:
    def spoil(values: torch.Tensor) -> torch.Tensor:
        values.view(-1)[7] = value
        return values

    with pytest.raises(ArtifactInvalid, match=f"'{name}' holds 1 values of"):
        start_with(registry, name, spoil)


def test_memory_that_a_plugin_asks_for_in_vain_is_the_devices_lack(registry: PluginRegistry) -> None:
    def taken(values: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("tried to allocate 2.00 GiB")

    with pytest.raises(StartFailed, match=r"ran out of memory during 'weights' .*2\.00 GiB; another process"):
        start_with(registry, NORM, taken)


def test_a_model_whose_numbers_grow_beyond_all_bounds_does_not_start(registry: PluginRegistry) -> None:
    with pytest.raises(ModelNotFinite, match=r"of \d+ logits of a first prompt are NaN or infinite") as caught:
        start_with(registry, NORM, lambda values: values.fill_(3e38))
    assert caught.value.code == "model_not_finite" and caught.value.exit_code == 1
