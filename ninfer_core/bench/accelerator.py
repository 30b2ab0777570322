"""What is asked of the GPU itself, and what is given back to it. Nothing, where the device is the CPU."""

from __future__ import annotations

import gc

import torch


def card_of(device: torch.device) -> str:
    """Which one of all of its name it is; empty for the CPU, and where torch does not say."""
    if device.type != "cuda":
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def watch_peak(device: torch.device) -> None:
    """`peak_bytes` is of what happens from here on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """The most that torch has had in use at one time."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def give_back() -> int:
    """Give what nothing holds any more back to the device; -> bytes that are still held. Raises RuntimeError where the
    device does not answer this process any more, as after a kernel that read where nothing is."""
    gc.collect()
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated()
