"""Which device a plan is for, and how CUDA devices are counted."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.plan import device as device_module
from ninfer_core.plan.device import GpuProbe, NvmlMemory, cpu_device, find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions

GPUS = tuple(
    DeviceInfo(kind="cuda", index=index, name=f"GPU {index}", memory_bytes=2**36, compute_capability="8.9")
    for index in range(2)
)
TWO, NONE = GpuProbe(GPUS), GpuProbe((), "no driver here")


def test_cpu_has_the_machine_memory() -> None:
    device = cpu_device()
    assert (device.kind, device.index, device.compute_capability) == ("cpu", None, None)
    assert device.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.contract("OPT-13")
def test_default_is_the_first_gpu_or_the_cpu() -> None:
    assert find_device(ServeOptions(), TWO) == GPUS[0]
    assert find_device(ServeOptions(), NONE).kind == "cpu"
    assert find_device(ServeOptions(device=1), TWO) == GPUS[1]
    assert find_device(ServeOptions(device="cpu"), TWO).kind == "cpu"


@pytest.mark.contract("OPT-13")
@pytest.mark.parametrize(
    ("probe", "index", "words"), [(NONE, 0, "no driver here"), (TWO, 2, "there are 2 CUDA devices")]
)
def test_a_gpu_that_was_asked_for_is_not_replaced(probe: GpuProbe, index: int, words: str) -> None:
    with pytest.raises(PlanRejected) as caught:
        find_device(ServeOptions(device=index, origins={"device": "NINFER_DEVICE"}), probe)
    (problem,) = caught.value.problems
    assert problem.code == "device_missing"
    assert words in problem.message
    assert "NINFER_DEVICE" in problem.message
    assert "--device cpu" in problem.remedy


def test_assumed_memory() -> None:
    assumed = find_device(ServeOptions(assume_device_memory=2**37), NONE)
    assert assumed == DeviceInfo(kind="cuda", index=0, name="assumed", memory_bytes=2**37, compute_capability="9.0")
    real = find_device(ServeOptions(assume_device_memory=2**37, device=1), TWO)
    assert (real.name, real.index, real.memory_bytes, real.compute_capability) == ("GPU 1", 1, 2**37, "8.9")


class FakeNvml:
    """The management library with three devices; functions fill what they are given by reference."""

    UUIDS = ("GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3")

    def __init__(self, start_status: int = 0, missing: str = "") -> None:
        self.start_status = start_status
        self.missing = missing
        self.shut_down = False

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "missing"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def nvmlInit_v2(self) -> int:
        return self.start_status

    def nvmlShutdown(self) -> int:
        self.shut_down = True
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.UUIDS)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
        handle._obj.value = 3
        return 0 if uuid == b"MIG-1" else 6

    def nvmlDeviceGetUUID(self, handle: ctypes.c_void_p, buffer: Any, size: int) -> int:
        buffer.value = self.UUIDS[(handle.value or 0) - 1].encode()
        return 0

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, buffer: Any, size: int) -> int:
        buffer.value = f"Card {handle.value}".encode()
        return 0

    def nvmlDeviceGetMemoryInfo_v2(self, handle: ctypes.c_void_p, memory: Any) -> int:
        assert memory._obj.version == ctypes.sizeof(NvmlMemory) | 2 << 24
        memory._obj.total, memory._obj.reserved, memory._obj.free = 1000, 10, 1
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: ctypes.c_void_p, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return 0


def probe_with(monkeypatch: pytest.MonkeyPatch, library: FakeNvml, visible: str | None = None) -> GpuProbe:
    monkeypatch.setattr(device_module.ctypes, "CDLL", lambda name: library)
    return probe_gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})


def test_devices_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml()
    probe = probe_with(monkeypatch, library)
    assert probe.devices[1] == DeviceInfo(
        kind="cuda", index=1, name="Card 2", memory_bytes=990, compute_capability="9.0"
    )
    assert len(probe.devices) == 3
    assert library.shut_down


@pytest.mark.parametrize(
    ("visible", "cards"),
    [
        ("2,0", ["Card 3", "Card 1"]),
        ("1,9,0", ["Card 2"]),
        ("", []),
        ("-1", []),
        ("GPU-cc, 0", ["Card 3", "Card 1"]),
        ("GPU-aa", []),
        ("GPU-aab", ["Card 2"]),
        ("MIG-1", ["Card 3"]),
        ("MIG-2,0", []),
    ],
)
def test_visible_devices_are_numbered_as_cuda_does(
    monkeypatch: pytest.MonkeyPatch, visible: str, cards: list[str]
) -> None:
    probe = probe_with(monkeypatch, FakeNvml(), visible)
    assert [device.name for device in probe.devices] == cards
    assert [device.index for device in probe.devices] == list(range(len(cards)))
    assert bool(probe.reason) is not bool(cards)


def test_a_driver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NVML error 9" in probe_with(monkeypatch, FakeNvml(start_status=9)).reason
    old = FakeNvml(missing="nvmlDeviceGetMemoryInfo_v2")
    assert "too old" in probe_with(monkeypatch, old).reason
    assert old.shut_down

    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(device_module.ctypes, "CDLL", no_library)
    assert "no NVIDIA driver" in probe_gpus({}).reason


@pytest.mark.gpu
def test_devices_are_those_that_torch_sees() -> None:
    import torch

    probe = probe_gpus()
    if not torch.cuda.is_available():
        pytest.skip(f"no CUDA device: {probe.reason}")
    assert len(probe.devices) == torch.cuda.device_count()
    for device in probe.devices:
        properties = torch.cuda.get_device_properties(device.index)
        assert device.name == properties.name
        assert device.compute_capability == f"{properties.major}.{properties.minor}"
        assert abs(device.memory_bytes - properties.total_memory) <= 64 * 2**20
