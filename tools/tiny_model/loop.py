"""The loop of every stage: so many steps, rates by their count, and a guard on the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from tools.tiny_model.encode import Rows
from tools.tiny_model.step import PLAIN_STEPS, TrainingStep

# Reading a loss waits for the GPU: rarely, so that its queue stays full, but the guard must know the time.
STEPS_BETWEEN_READS = 25
STEPS_BETWEEN_LINES = 250


def run_steps(
    step: TrainingStep,
    batches: Iterator[Rows],
    *,
    steps: int,
    share: Callable[[float], float],
    before: Sequence[float],
    deadline: float,
    on_step: Callable[[int, Rows], None] | None = None,
) -> list[float]:
    """The loss of every step from the first to the last, those `before` included, which were done in an earlier call.

    `share` is that of the peak rates at each part of the steps: nothing that is computed depends on the clock. Past
    `deadline` of the monotonic clock it ends with fewer losses than steps.
    """
    losses: list[Tensor] = []
    began = time.monotonic()
    waited = 0.0
    for done in range(len(before), steps):
        if time.monotonic() > deadline:
            break
        asked = time.monotonic()
        rows = next(batches)
        waited += time.monotonic() - asked
        losses.append(step(rows, share(done / steps)))
        if len(losses) % STEPS_BETWEEN_READS == 1 or len(losses) == PLAIN_STEPS + 1:
            value = losses[-1].item()
            if done % STEPS_BETWEEN_LINES == 0 or len(losses) == PLAIN_STEPS + 1:
                spent = time.monotonic() - began
                print(f"step {done + 1} loss {value:.4f} at {spent:.1f} s, waited {waited:.1f} s", flush=True)
        if on_step:
            on_step(done + 1, rows)
    spent = time.monotonic() - began
    print(f"{len(losses)} steps in {spent:.0f} s, waited {waited:.0f} s for data", flush=True)
    return [*before, *(torch.stack(losses).tolist() if losses else ())]
