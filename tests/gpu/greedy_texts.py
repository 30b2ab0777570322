"""Greedy texts of a program on a CUDA device, with a drafter or without, and adversaries that draft for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ninfer_core.api import Draft, DraftColumns, DrafterNeeds, DraftSampling, ExecutionPlan, Model
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.bench.driver import GREEDY
from ninfer_core.plan.device import find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import RowRound, Unit
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import Adversary, HostAdversary, with_drafter, with_needs
from tests.program.drafted import begin

ROWS, OUTPUT = 8, 40
CUDA = torch.device("cuda")


class Mixed(Adversary):
    """Always right in a third of the slots, always wrong in another, random in the last. On the host the same."""

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        right = self.known(columns)
        anything = (self.noise(columns, sampling) * self.token_domain).long()
        kind = (columns.slots % 3).unsqueeze(1)
        wrong = (right + 1) % self.token_domain
        return Draft(torch.where(kind == 0, right, torch.where(kind == 1, wrong, anything)))


def build(
    handle: ArtifactHandle,
    registry: PluginRegistry,
    drafter: Callable[[ExecutionPlan], object] | None = None,
    needs: DrafterNeeds | None = None,
    wrap_model: Callable[[Model], Model] | None = None,
    **options: Any,
) -> tuple[DeviceProgram, int]:
    """-> (program, token domain); `drafter` makes an adversary with those needs."""
    header = handle.header
    if needs is not None:
        header = with_needs(header, needs)
    asked = ServeOptions(device=0, max_concurrency=ROWS, max_context=512, kv_capacity=ROWS * 512, **options)
    plan = resolve(asked, registry, header, find_device(asked, probe_gpus()))
    if drafter is not None:
        header = with_drafter(header, drafter(plan))
    with handle.open_weights() as weights:
        program = build_program(
            plan, header, weights, registry, device_of(plan), lambda phase, seconds: None, wrap_model
        )
    return program, plan.token_domain


def write(
    program: DeviceProgram,
    prompts: Sequence[Sequence[int]],
    know: Callable[[int, int], None] = lambda row, number: None,
    look: Callable[[Sequence[int]], None] | None = None,
) -> tuple[list[list[int]], int]:
    """Greedy texts, eight prompts together, and how many drafts were kept. `know` is told which prompt a row has,
    `look` after each round which prompts were in it. Where nobody looks, rounds go ahead as the engine's do."""
    texts: list[list[int]] = []
    kept = 0
    for start in range(0, len(prompts), ROWS):
        numbers: dict[int, int] = {}
        for number in range(start, min(start + ROWS, len(prompts))):
            row, candidate = begin(program, prompts[number], GREEDY, OUTPUT, chunk=512)
            know(row, number)
            numbers[row] = number
            texts.append([candidate])
        flight = deque([launch(program, dict.fromkeys(numbers, 1))])
        while flight:
            # A round gives a token at least: with one more to come, a row is sure to end in the round in flight.
            going = [row for row in flight[0][0] if row in numbers and len(texts[numbers[row]]) + 1 < OUTPUT]
            if look is None and program.goes_ahead and going:
                flight.append(launch(program, dict.fromkeys(going)))
            rows, unit = flight.popleft()
            offered, accepted = unit(), {}
            if look is not None:
                look([numbers[row] for row in rows])
            for row, candidates in zip(rows, offered, strict=True):
                if row not in numbers:
                    continue
                text = texts[numbers[row]]
                accepted[row] = taken = min(len(candidates), OUTPUT - len(text))
                text.extend(candidates[:taken])
                kept += taken - 1
                if len(text) == OUTPUT:
                    program.close_row(row)
                    del numbers[row], accepted[row]
            if accepted and not flight:
                flight.append(launch(program, accepted))
    return texts, kept


def launch(program: DeviceProgram, accepted: Mapping[int, int | None]) -> tuple[list[int], Unit]:
    """-> the rows of a round, and it."""
    return list(accepted), program.launch_decode([RowRound(row=row, accepted=n) for row, n in accepted.items()])


def make_device(plan: ExecutionPlan) -> Mixed:
    texts = torch.zeros(plan.capacities.state_slots, plan.capacities.max_context, dtype=torch.int64, device=CUDA)
    return Mixed(plan.capacities.draft_tokens, plan.token_domain, texts)


def make_host(plan: ExecutionPlan) -> HostAdversary:
    adversary = HostAdversary()
    adversary.answers = [[] for _ in range(plan.capacities.state_slots)]
    return adversary
