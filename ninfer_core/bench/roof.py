"""What the device does at its best: the rates that every figure is a fraction of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from ninfer_core.bench.records import Roof

REPEATS = 12
UNCOUNTED = 3
COPY_BYTES = {"cuda": 4 << 30, "cpu": 64 << 20}
"""Of each of the two buffers: far more than any cache holds."""
SQUARE = {"cuda": 8192, "cpu": 1024}
"""Rows and columns of the matrices: large enough to fill a device, a tenth of a second at most."""


def measure_roof(device: torch.device) -> Roof:
    """Copy bandwidth, and rates of products in bfloat16 (float32 on the CPU) and in 8 bits where the device has them.
    Random numbers: products of zeros run faster than real ones."""
    source = torch.empty(COPY_BYTES[device.type], dtype=torch.uint8, device=device).random_(0, 255)
    target = torch.empty_like(source)
    moved = 2 * source.numel()
    copy = median_seconds(partial(target.copy_, source), device)
    del source, target
    size = SQUARE[device.type]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    operations = 2.0 * size**3
    product = median_seconds(lambda: torch.matmul(left, right), device)
    fp8 = _fp8_seconds(left, right) if has_fp8(device) else None
    return Roof(
        copy_bytes_per_second=moved / copy,
        matmul_flops=operations / product,
        fp8_matmul_flops=None if fp8 is None else operations / fp8,
    )


def has_fp8(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)


def _fp8_seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    one = torch.ones((), device=left.device)
    first, second = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).t()
    return median_seconds(
        lambda: torch._scaled_mm(first, second, scale_a=one, scale_b=one, out_dtype=torch.bfloat16), left.device
    )


def median_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of REPEATS runs after UNCOUNTED that do not count; on a device timed by its own clock."""
    timed = _device_seconds if device.type == "cuda" else _host_seconds
    return statistics.median([timed(work) for _ in range(UNCOUNTED + REPEATS)][UNCOUNTED:])


def _host_seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _device_seconds(work: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
