"""What a run ran on, for its file."""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform

from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.bench.records import Machine
from ninfer_core.plan.device import LIBRARY

VERSION_BYTES = 80
"""What the library asks for (NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE)."""


def machine_of(plan: ExecutionPlan | None, card: str = "") -> Machine:
    """The device is the plan's; without one it is not known here. `card` is as `Machine` has it."""
    return Machine(
        device="unknown" if plan is None else plan.device.name,
        torch=_version("torch"),
        triton=_version("triton"),
        driver=_driver(),
        python=platform.python_version(),
        card=card,
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _driver() -> str:
    """Version of the NVIDIA driver; `none` where there is none."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        return "none"
    buffer = ctypes.create_string_buffer(VERSION_BYTES)
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlSystemGetDriverVersion(buffer, VERSION_BYTES) != 0:
        return "none"
    return buffer.value.decode()
