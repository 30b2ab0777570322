"""The tiny model's program with a drafter that a test has made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ninfer_core.api import DrafterNeeds, ExecutionPlan
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.drafters import BACKEND, with_drafter, with_needs
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

ROOMY = {"max_context": 512, "max_concurrency": 8, "kv_capacity": 8 * 512}


def build_drafted(
    registry: PluginRegistry, make: Callable[[ExecutionPlan], object], needs: DrafterNeeds, **options: Any
) -> DeviceProgram:
    """A program with the drafter that `make` gives for its plan."""
    artifact = tiny_artifact()
    header = with_needs(artifact.header, needs)
    plan = tiny_plan(registry, header, spec=BACKEND, **{**ROOMY, **options})
    drafter = make(plan)
    with artifact.open_weights() as weights:
        return build_program(
            plan, with_drafter(header, drafter), weights, registry, torch.device("cpu"), lambda name, seconds: None
        )


def no_text(plan: ExecutionPlan) -> torch.Tensor:
    """Room for what a test knows of every slot."""
    return torch.zeros(plan.capacities.state_slots, plan.capacities.max_context, dtype=torch.int64)


def begin(
    program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, output: int, chunk: int = 128
) -> tuple[int, int]:
    """A row behind its prompt -> (row, its first candidate)."""
    row = program.open_row(RowSetup(len(tokens), len(tokens) + output, sampling))
    assert row is not None
    candidate = None
    for first in range(0, len(tokens), chunk):
        candidate = program.prefill(row, tokens[first : first + chunk], first + chunk >= len(tokens))
    assert candidate is not None
    return row, candidate


def generate(program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, count: int) -> list[int]:
    """All candidates of every round are taken, as far as `count` goes."""
    row, candidate = begin(program, tokens, sampling, count)
    made, accepted = [candidate], 1
    while len(made) < count:
        (offered,) = program.decode([RowRound(row=row, accepted=accepted)])
        made.extend(offered)
        accepted = len(offered)
    program.close_row(row)
    return made[:count]


def next_rounds(program: DeviceProgram, rows: dict[int, int]) -> dict[int, tuple[tuple[int, ...], int]]:
    """A round of rows, each with how many of its candidates are taken -> candidates and drafts checked by row."""
    unit = program.launch_decode([RowRound(row=row, accepted=accepted) for row, accepted in rows.items()])
    found = unit()
    return dict(zip(rows, zip(found, unit.drafted(), strict=True), strict=True))
