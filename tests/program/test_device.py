"""The device that torch has under the plan's number is the device of the plan."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
import torch

from ninfer_core.api import DeviceInfo, ExecutionPlan, StartFailed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program import build
from ninfer_core.program.build import build_program, device_of
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

GIB = 1 << 30
PLANNED = DeviceInfo(kind="cuda", index=1, name="NVIDIA H200", memory_bytes=140 * GIB, compute_capability="9.0")


@pytest.fixture
def plan() -> ExecutionPlan:
    return msgspec.structs.replace(simulated_plan(), device=PLANNED)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The devices that torch says it finds."""
    devices: list[SimpleNamespace] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(devices))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(devices))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: devices[index])
    return devices


def card(name: str = "NVIDIA H200", memory_bytes: int = 140 * GIB) -> SimpleNamespace:
    return SimpleNamespace(name=name, total_memory=memory_bytes)


def test_the_planned_device(plan: ExecutionPlan, found: list[SimpleNamespace]) -> None:
    found += [card("NVIDIA L4", 22 * GIB), card(memory_bytes=139 * GIB)]
    assert device_of(plan) == torch.device("cuda", 1)


@pytest.mark.parametrize("other", [card("NVIDIA L4"), card(memory_bytes=70 * GIB), card(memory_bytes=144 * GIB)])
def test_another_device_under_its_number_is_refused_with_both(
    other: SimpleNamespace, plan: ExecutionPlan, found: list[SimpleNamespace]
) -> None:
    found += [card(), other]
    with pytest.raises(StartFailed) as caught:
        device_of(plan)
    for word in ("NVIDIA H200 with 140.00 GiB as CUDA device 1", other.name, "CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        assert word in caught.value.message


def test_a_number_that_torch_does_not_have(plan: ExecutionPlan, found: list[SimpleNamespace]) -> None:
    found.append(card())
    with pytest.raises(StartFailed, match=r"CUDA device 1 .*torch finds 1"):
        device_of(plan)
    found.clear()
    with pytest.raises(StartFailed, match="torch finds no CUDA device"):
        device_of(plan)


def test_the_cpu_needs_no_number(plan: ExecutionPlan) -> None:
    assert device_of(simulated_plan()) == torch.device("cpu")


def test_a_program_is_built_with_its_device_current(monkeypatch: pytest.MonkeyPatch, registry: PluginRegistry) -> None:
    """Triton launches on the device that is current for the thread, wherever the tensors are."""
    order: list[object] = []

    def loading(*arguments: object) -> None:
        order.append("loading")
        raise EOFError

    monkeypatch.setattr(torch.cuda, "set_device", order.append)
    monkeypatch.setattr(build, "load_model", loading)
    artifact = tiny_artifact()
    plan = tiny_plan(registry, artifact.header)
    for device in (torch.device("cuda", 1), torch.device("cpu")):
        with artifact.open_weights() as weights, pytest.raises(EOFError):
            build_program(plan, artifact.header, weights, registry, device, lambda name, seconds: None)
    assert order == [torch.device("cuda", 1), "loading", "loading"]
