"""Which device the plan is for. CUDA devices are found through the driver's management library (NVML), not through
torch, so that planning costs neither its import nor a CUDA context."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.plan.options import ServeOptions

LIBRARY = "libnvidia-ml.so.1"
ASSUMED_COMPUTE_CAPABILITY = "9.0"
NAME_BYTES = 96


class NvmlMemory(ctypes.Structure):
    """`nvmlMemory_v2_t`. `reserved` is what driver and firmware keep; no program can have it."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


@dataclass(frozen=True, slots=True)
class GpuProbe:
    """CUDA devices in the order that a CUDA program sees them; `reason` says why there are none."""

    devices: tuple[DeviceInfo, ...]
    reason: str = ""


def find_device(options: ServeOptions, probe: GpuProbe) -> DeviceInfo:
    """The device that the options ask for; without `--device` CUDA device 0, or the CPU where there is none.

    Raises PlanRejected for a device that is not there.
    """
    if options.device == "cpu":
        return cpu_device()
    if options.assume_device_memory is not None:
        return _assumed(options, probe)
    if options.device is None:
        return probe.devices[0] if probe.devices else cpu_device()
    assert isinstance(options.device, int)
    if options.device < len(probe.devices):
        return probe.devices[options.device]
    raise PlanRejected([_missing(options, probe)])


def cpu_device() -> DeviceInfo:
    """The CPU with the machine's physical memory."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return DeviceInfo(
        kind="cpu", index=None, name=f"CPU ({platform.machine()})", memory_bytes=memory_bytes, compute_capability=None
    )


def probe_gpus(environment: Mapping[str, str] = os.environ) -> GpuProbe:
    """Every CUDA device that CUDA_VISIBLE_DEVICES leaves visible."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        return GpuProbe((), f"{LIBRARY} is not installed, so there is no NVIDIA driver here")
    status = nvml.nvmlInit_v2()
    if status != 0:
        return GpuProbe((), f"the NVIDIA driver's library does not start (NVML error {status})")
    try:
        handles = _visible_handles(nvml, environment.get("CUDA_VISIBLE_DEVICES"))
        devices = tuple(_describe(nvml, handle, index) for index, handle in enumerate(handles))
    except OSError as error:
        return GpuProbe((), str(error))
    finally:
        nvml.nvmlShutdown()
    return GpuProbe(devices, "" if devices else "the NVIDIA driver shows no device")


def _assumed(options: ServeOptions, probe: GpuProbe) -> DeviceInfo:
    index = options.device if isinstance(options.device, int) else 0
    assert options.assume_device_memory is not None
    known = probe.devices[index] if index < len(probe.devices) else None
    return DeviceInfo(
        kind="cuda",
        index=index,
        name="assumed" if known is None else known.name,
        memory_bytes=options.assume_device_memory,
        compute_capability=ASSUMED_COMPUTE_CAPABILITY if known is None else known.compute_capability,
    )


def _missing(options: ServeOptions, probe: GpuProbe) -> Problem:
    found = f"there are {len(probe.devices)} CUDA devices" if probe.devices else probe.reason
    return Problem(
        code="device_missing",
        message=f"{options.origin('device')} asks for CUDA device {options.device}: {found}",
        remedy="--device cpu runs on the CPU; --assume-device-memory 141GiB plans for a device that is not here",
    )


def _call(nvml: ctypes.CDLL, name: str, *arguments: object) -> None:
    try:
        status = getattr(nvml, name)(*arguments)
    except AttributeError:
        raise OSError(f"this NVIDIA driver is too old: its library has no {name}") from None
    if status != 0:
        raise OSError(f"{name} failed (NVML error {status})")


def _visible_handles(nvml: ctypes.CDLL, visible: str | None) -> list[ctypes.c_void_p]:
    """Handles as CUDA numbers them: the entries of CUDA_VISIBLE_DEVICES up to the first that is no device."""
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    handles = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        _call(nvml, "nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        handles.append(handle)
    if visible is None:
        return handles
    return _chosen_handles(nvml, handles, [entry.strip() for entry in visible.split(",")])


def _chosen_handles(
    nvml: ctypes.CDLL, handles: Sequence[ctypes.c_void_p], entries: Sequence[str]
) -> list[ctypes.c_void_p]:
    chosen: list[ctypes.c_void_p] = []
    for entry in entries:
        if entry.isdecimal():
            if int(entry) >= len(handles):
                break
            chosen.append(handles[int(entry)])
            continue
        handle = _by_identifier(nvml, handles, entry)
        if handle is None:
            break
        chosen.append(handle)
    return chosen


def _by_identifier(nvml: ctypes.CDLL, handles: Sequence[ctypes.c_void_p], entry: str) -> ctypes.c_void_p | None:
    if entry.startswith("MIG-"):
        handle = ctypes.c_void_p()
        found = nvml.nvmlDeviceGetHandleByUUID(entry.encode(), ctypes.byref(handle)) == 0
        return handle if found else None
    if not entry.startswith("GPU-"):
        return None
    matches = [handle for handle in handles if _text(nvml, "nvmlDeviceGetUUID", handle).startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def _text(nvml: ctypes.CDLL, name: str, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    _call(nvml, name, handle, buffer, NAME_BYTES)
    return buffer.value.decode(errors="replace")


def _describe(nvml: ctypes.CDLL, handle: ctypes.c_void_p, index: int) -> DeviceInfo:
    memory = NvmlMemory(version=ctypes.sizeof(NvmlMemory) | (2 << 24))
    _call(nvml, "nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call(nvml, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return DeviceInfo(
        kind="cuda",
        index=index,
        name=_text(nvml, "nvmlDeviceGetName", handle),
        memory_bytes=memory.total - memory.reserved,
        compute_capability=f"{major.value}.{minor.value}",
    )
