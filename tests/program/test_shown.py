"""What a drafter is shown: of every sequence each committed column once, in order, with the token behind it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ninfer_core.api import (
    FINAL_HIDDEN,
    Draft,
    DraftColumns,
    DrafterNeeds,
    DraftSampling,
    ExecutionPlan,
    StateArray,
)
from ninfer_core.program.contract import RowRound
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import Adversary, Fickle
from tests.program.drafted import GREEDY, begin, build_drafted, generate, next_rounds, no_text, prompt, tell

NEEDS = DrafterNeeds(taps=(1, FINAL_HIDDEN), state=(StateArray(name="columns", layers=1, shape=(1,), dtype="int64"),))


class Witness(Fickle):
    """Keeps what it is shown by slot: positions, tokens behind them, features. How many columns it has been shown is
    in its state, so that a slot that begins anew shows."""

    def __init__(self, plan: ExecutionPlan) -> None:
        super().__init__(plan.capacities.draft_tokens, plan.token_domain, no_text(plan))
        self.seen: dict[int, list[tuple[int, int, torch.Tensor]]] = defaultdict(list)

    def ingest(self, columns: DraftColumns) -> None:
        assert columns.slots.shape == (1,) and columns.counts.tolist() == [columns.token_ids.shape[1]]
        self._look(columns)

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        self._look(columns)
        return super().propose(columns, sampling)

    def _look(self, columns: DraftColumns) -> None:
        for row, slot in enumerate(columns.slots.tolist()):
            count = int(columns.counts[row])
            seen = columns.state["columns"][0, slot]
            assert columns.positions[row].tolist()[0] == int(seen), "in order, and none left out"
            seen += count
            assert int(columns.lengths[row]) == int(seen)
            assert columns.anchors[row] == columns.token_ids[row, count - 1]
            for column in range(count):
                at = (int(columns.positions[row, column]), int(columns.token_ids[row, column]))
                self.seen[slot].append((*at, columns.features[row, column].clone()))


@pytest.fixture
def witnessed(scripted: Any) -> tuple[DeviceProgram, Witness]:
    made: list[Witness] = []

    def make(plan: ExecutionPlan) -> Adversary:
        made.append(Witness(plan))
        return made[0]

    program = build_drafted(scripted, make, NEEDS, draft_tokens=4, max_concurrency=3, kv_capacity=1536)
    made[0].seen.clear()
    return program, made[0]


def check(program: DeviceProgram, witness: Witness, row: int, text: list[int]) -> None:
    """What was shown of `row`, whose tokens are `text`, is what a prompt of them leaves."""
    seen = witness.seen.pop(row)
    columns = len(seen)
    assert [position for position, _, _ in seen] == list(range(columns))
    assert [token for _, token, _ in seen] == text[1 : 1 + columns]
    # Anew and in one piece, in another slot; the last column is shown in a round.
    cold, _ = begin(program, text[:columns], GREEDY, 8, chunk=512)
    next_rounds(program, {cold: 1})
    expected = witness.seen.pop(cold)
    program.close_row(cold)
    assert [position for position, _, _ in expected] == list(range(columns))
    for (_, _, found), (_, _, wanted) in zip(seen, expected, strict=True):
        assert found.shape == (2, 64)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=3e-3)  # chunks and rounds sum in other orders


@pytest.mark.parametrize("chunk", [128, 20])
def test_prompts_rounds_cuts_and_forced_tokens(
    chunk: int, witnessed: tuple[DeviceProgram, Witness], build: Callable[..., Any]
) -> None:
    program, witness = witnessed
    draw = random.Random(chunk)
    tokens = prompt(45, 2)
    row, candidate = begin(program, tokens, GREEDY, 150, chunk)
    other, _ = begin(program, prompt(9, 5), GREEDY, 300)
    tell(witness.texts, row, [*tokens, *generate(build().program, tokens, GREEDY, 50)])
    text, accepted, taken = [*tokens, candidate], 1, 1
    for step in range(17):
        found = next_rounds(program, {row: accepted, other: taken} if step % 2 else {other: taken, row: accepted})
        candidates, taken = found[row][0], len(found[other][0])
        accepted = draw.randint(1, len(candidates))
        text.extend(candidates[:accepted])
        if step in (5, 6, 15):
            program.control(RowRound(row=row, accepted=accepted), forced := prompt(1 + step // 5, step))
            text.extend(forced)
            accepted = 1
    next_rounds(program, {row: accepted})
    program.close_row(other)
    witness.seen.pop(other)
    check(program, witness, row, text)


def test_a_prompt_of_one_token(witnessed: tuple[DeviceProgram, Witness]) -> None:
    program, witness = witnessed
    row, candidate = begin(program, [7], GREEDY, 20)
    assert witness.seen == {}
    ((candidates, _),) = next_rounds(program, {row: 1}).values()
    assert [seen[:2] for seen in witness.seen[row]] == [(0, candidate)]
    next_rounds(program, {row: 1})
    check(program, witness, row, [7, candidate, candidates[0]])


def test_a_slot_begins_anew(witnessed: tuple[DeviceProgram, Witness]) -> None:
    program, witness = witnessed
    for length in (30, 3):
        row, _ = begin(program, prompt(length, length), GREEDY, 20)
        next_rounds(program, {row: 1})
        program.close_row(row)
        assert len(witness.seen.pop(row)) == length
