"""Where the time of a decode round goes, kernel by kernel."""

from __future__ import annotations

from collections import defaultdict

import torch

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.records import KernelTime, Profile

ROUNDS = 8


def profile_rounds(driver: Driver, rows: int, context_tokens: int) -> Profile:
    """ROUNDS rounds of `rows` rows under the profiler of the device. Tracing slows a round down: what counts are shares
    and the times of single kernels, not their sum against a round that is not traced."""
    open_rows = driver.standing(rows, context_tokens, 2 * ROUNDS * driver.columns + 1)
    driver.rounds(open_rows, ROUNDS)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        driver.rounds(open_rows, ROUNDS)
        torch.cuda.synchronize()
    driver.close(open_rows)
    launches: dict[str, int] = defaultdict(int)
    microseconds: dict[str, float] = defaultdict(float)
    for event in trace.events() or ():
        if event.device_type.name == "CUDA":
            launches[event.name] += 1
            microseconds[event.name] += event.self_device_time_total
    kernels = sorted(microseconds, key=lambda name: -microseconds[name])
    return Profile(
        case="decode",
        rows=rows,
        context_tokens=context_tokens,
        kernels=tuple(
            KernelTime(name=name[:120], launches=launches[name] / ROUNDS, microseconds=microseconds[name] / ROUNDS)
            for name in kernels
        ),
    )
