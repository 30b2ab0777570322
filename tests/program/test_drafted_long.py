"""Five hundred prompts with drafts, in ever other company: rows end inside rounds, are cancelled, are told tokens."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import DrafterNeeds, ExecutionPlan
from ninfer_core.program.contract import RowRound
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import Adversary, Fickle, Foreign, HostAdversary, Random
from tests.program.drafted import (
    GREEDY,
    ON_HOST,
    begin,
    build_drafted,
    generate,
    next_rounds,
    no_text,
    prompt,
    sampled,
    tell,
)

OUTPUT = 20
PROMPTS = 125
"""Of each of four drafters."""


def sampling_of(number: int) -> Any:
    if number % 3 == 0:
        return GREEDY
    return sampled(number, temperature=0.4 + 0.1 * (number % 9), top_p=0.95, frequency_penalty=0.3 * (number % 2))


@pytest.fixture(scope="module")
def answers(build: Callable[..., Any]) -> list[tuple[list[int], list[int]]]:
    """Prompts, and what they give without drafts."""
    plain, draw = build().program, random.Random(7)
    prompts = [prompt(draw.randint(1, 90), number) for number in range(PROMPTS)]
    return [(tokens, generate(plain, tokens, sampling_of(number), OUTPUT)) for number, tokens in enumerate(prompts)]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "draft_tokens"), [(Fickle, 3), (Foreign, 7), (Random, 1), (HostAdversary, 5)])
def test_no_company_and_no_cut_changes_a_token(
    kind: type[Any], draft_tokens: int, scripted: Any, answers: list[tuple[list[int], list[int]]]
) -> None:
    made: list[Any] = []

    def make(plan: ExecutionPlan) -> object:
        known = () if kind is HostAdversary else (plan.capacities.draft_tokens, plan.token_domain, no_text(plan))
        made.append(kind(*known))
        return made[0]

    needs = ON_HOST if kind is HostAdversary else DrafterNeeds()
    program = build_drafted(scripted, make, needs, draft_tokens=draft_tokens)
    drafter, draw = made[0], random.Random(draft_tokens)
    if isinstance(drafter, HostAdversary):
        drafter.answers = [[] for _ in range(8)]
    waiting = list(range(PROMPTS))
    draw.shuffle(waiting)
    company: dict[int, tuple[int, list[int], int]] = {}
    finished = 0
    while waiting or company:
        while waiting and len(company) < 8 and (not company or draw.random() < 0.4):
            number = waiting.pop()
            company.update(_started(program, drafter, number, answers))
        rows = draw.sample(sorted(company), draw.randint(1, len(company)))
        for row, (candidates, _) in next_rounds(program, {row: company[row][2] for row in rows}).items():
            number, text, _ = company[row]
            taken = min(draw.randint(1, len(candidates)), OUTPUT - len(text))
            text.extend(candidates[:taken])
            assert text == answers[number][1][: len(text)], f"prompt {number} of {kind.__name__}"
            company[row] = (number, text, taken)
            if len(text) == OUTPUT or draw.random() < 0.01:
                finished += len(text) == OUTPUT
                if draw.random() < 0.2:  # the row goes on behind tokens that it is told, and is cancelled then
                    program.control(RowRound(row=row, accepted=taken), [1, 2, 3])
                program.close_row(row)
                del company[row]
    assert finished > 0.7 * PROMPTS


def _started(
    program: DeviceProgram, drafter: Adversary | HostAdversary, number: int, answers: list[tuple[list[int], list[int]]]
) -> dict[int, tuple[int, list[int], int]]:
    tokens, text = answers[number]
    row, candidate = begin(program, tokens, sampling_of(number), OUTPUT + 8)
    known = [*tokens, *text]
    if isinstance(drafter, HostAdversary):
        known[len(tokens) + 1 :: 4] = [0] * len(known[len(tokens) + 1 :: 4])
        drafter.answers[row] = known  # type: ignore[index]
    else:
        tell(drafter.texts, row, known)
    return {row: (number, [candidate], 1)}
