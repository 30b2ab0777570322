"""Rounds with drafts: whatever is proposed, however much of it is taken, the text is the one without."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from ninfer_core.api import DrafterNeeds, PluginBroken
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import (
    Adversary,
    AlwaysRight,
    AlwaysWrong,
    Drawn,
    Fickle,
    Foreign,
    HostAdversary,
    Random,
    Silent,
)
from tests.program.drafted import (
    GREEDY,
    ON_HOST,
    OUTPUT,
    PROMPTS,
    SAMPLINGS,
    WISHES,
    begin,
    build_adversary,
    build_drafted,
    generate,
    next_rounds,
    no_text,
    prompt,
    sampled,
    tell,
)

CERTAIN = (AlwaysRight, AlwaysWrong, Silent, Foreign, Random, Fickle)


@pytest.fixture
def make(scripted: PluginRegistry) -> Callable[..., tuple[DeviceProgram, Adversary]]:
    """The program of an adversary, and the adversary."""
    return partial(build_adversary, scripted)


def run_batch(program: DeviceProgram, known: torch.Tensor | None, texts: list[list[int]], cut: int | None) -> list[Any]:
    """All prompts in one batch until each has its output; of every round some candidates are taken, all of them
    where `cut` is None. -> the texts, and of every row the drafts that were checked and kept."""
    draw = random.Random(cut)
    rows, made, checked = [], [], []
    for tokens, each, text in zip(PROMPTS, SAMPLINGS, texts, strict=True):
        row, candidate = begin(program, tokens, each, OUTPUT)
        if known is not None:
            tell(known, row, [*tokens, *text])
        rows.append(row)
        made.append([candidate])
        checked.append([0, 0])
    accepted = dict.fromkeys(rows, 1)
    while accepted:
        for row, (candidates, drafted) in next_rounds(program, accepted).items():
            at = rows.index(row)
            taken = len(candidates) if cut is None else draw.randint(1, len(candidates))
            taken = min(taken, OUTPUT - len(made[at]))
            checked[at][0] += drafted
            checked[at][1] += len(candidates) - 1
            made[at].extend(candidates[:taken])
            accepted[row] = taken
            if len(made[at]) == OUTPUT:
                program.close_row(row)
                del accepted[row]
    return [made, checked]


@pytest.mark.parametrize(
    ("kind", "draft_tokens"), [*((kind, 3) for kind in CERTAIN), (Fickle, 1), (Fickle, 15), (AlwaysRight, 7)]
)
def test_certain_drafts_of_any_kind_change_no_token(
    kind: type[Adversary], draft_tokens: int, make: Any, texts: list[list[int]]
) -> None:
    program, drafter = make(kind, draft_tokens)
    for cut in (None, 7):
        made, checked = run_batch(program, drafter.texts, texts, cut)
        assert made == texts
        drafted, kept = (sum(each) for each in zip(*checked, strict=True))
        if kind is Silent:
            assert drafted == kept == 0
        elif kind is AlwaysWrong:
            assert drafted > kept == 0
        elif kind is AlwaysRight and cut is None:
            # What lies behind the known text is the only thing that it does not know.
            assert kept >= drafted - len(texts) * draft_tokens > 0
        else:
            assert drafted >= kept and (kept > 0 or kind is Random)


def test_a_round_offers_all_that_was_right_and_one_more(make: Any, texts: list[list[int]]) -> None:
    program, drafter = make(AlwaysRight, 7)
    row, candidate = begin(program, PROMPTS[2], SAMPLINGS[2], OUTPUT)
    tell(drafter.texts, row, [*PROMPTS[2], *texts[2]])
    assert candidate == texts[2][0]
    assert next_rounds(program, {row: 1}) == {row: (tuple(texts[2][1:9]), 7)}
    assert next_rounds(program, {row: 3}) == {row: (tuple(texts[2][4:12]), 7)}


def test_greedy_rows_are_exact_under_drafts_that_were_drawn(make: Any, plain: DeviceProgram) -> None:
    """And sampled rows beside them end, with tokens of the vocabulary."""
    program, drafter = make(Drawn, 5)
    greedy = [generate(plain, tokens, GREEDY, OUTPUT) if each is GREEDY else [0] * OUTPUT for tokens, each in WISHES]
    made, checked = run_batch(program, drafter.texts, greedy, 3)
    for each, text, expected in zip(SAMPLINGS, made, greedy, strict=True):
        assert text == expected if each is GREEDY else all(0 <= token < drafter.token_domain for token in text)
    assert sum(kept for _, kept in checked) > 0


@pytest.mark.parametrize("sampling", [GREEDY, sampled(3, presence_penalty=1.0)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_forced_tokens_behind_a_cut_round(rounds: int, sampling: Sampling, make: Any, plain: DeviceProgram) -> None:
    tokens, forced = prompt(70, 3), [10, 20, 30, 40, 50]
    program, drafter = make(AlwaysRight, 7)
    text = generate(plain, tokens, sampling, 60)
    row, _ = begin(program, tokens, sampling, 120)
    tell(drafter.texts, row, [*tokens, *text])
    taken = 1
    made = 1
    for _ in range(rounds):
        ((candidates, _),) = next_rounds(program, {row: taken}).values()
        taken = 2
        made += taken
        assert len(candidates) == 8
    program.control(RowRound(row=row, accepted=taken), forced)
    # The plain program in the same place, one token at a time.
    alone, _ = begin(plain, tokens, sampling, 120)
    for _ in range(made - 1):
        plain.decode([RowRound(row=alone, accepted=1)])
    plain.control(RowRound(row=alone, accepted=1), forced)
    expected: list[int] = []
    while len(expected) < 30:
        expected.extend(plain.decode([RowRound(row=alone, accepted=1)])[0])
    plain.close_row(alone)
    tell(drafter.texts, row, [*tokens, *text[:made], *forced, *expected])
    found: list[int] = []
    accepted = 1
    while len(found) < 16:
        ((candidates, _),) = next_rounds(program, {row: accepted}).values()
        found.extend(candidates)
        accepted = len(candidates)
    assert found == expected[: len(found)]


def test_columns_behind_a_reservation_harm_nobody(make: Any, plain: DeviceProgram) -> None:
    """Two rows fill the pool and end in the middle of rounds that reach beyond their pages and the context."""
    program, drafter = make(AlwaysRight, 15, max_context=128, max_concurrency=2, kv_capacity=256)
    tokens = prompt(100, 1)
    text = generate(plain, tokens, GREEDY, 28)
    rows = [begin(program, tokens, GREEDY, 28)[0] for _ in range(2)]
    assert program.pages.free_pages == 0
    for row in rows:
        tell(drafter.texts, row, [*tokens, *text])
    made: list[list[int]] = [text[:1], text[:1]]
    accepted = dict.fromkeys(rows, 1)
    while len(made[0]) < 28:
        for at, (candidates, _) in enumerate(next_rounds(program, accepted).values()):
            accepted[rows[at]] = taken = min(len(candidates), 28 - len(made[at]))
            made[at].extend(candidates[:taken])
    assert made == [text, text]


@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_drafts_of_the_host(draft_tokens: int, scripted: PluginRegistry, texts: list[list[int]]) -> None:
    """Told every token once and in order; what it proposes is cut where it is no token."""
    drafter = HostAdversary()
    program = build_drafted(scripted, lambda plan: drafter, ON_HOST, draft_tokens=draft_tokens)
    assert drafter.told == {}
    answers: list[list[object]] = [[*tokens, *text] for tokens, text in zip(PROMPTS, texts, strict=True)]
    for answer in answers[1::2]:
        answer[-20::3] = [-1, "x", 10**12, True, None, 1.5, 289]
    # Rows are given out in this order, as `run_batch` opens them.
    drafter.answers = answers
    made, checked = run_batch(program, None, texts, 5)
    assert made == texts and drafter.told == {}
    assert sum(kept for _, kept in checked) > 0


def test_the_host_is_told_what_was_taken(scripted: PluginRegistry) -> None:
    drafter = HostAdversary()
    program = build_drafted(scripted, lambda plan: drafter, ON_HOST, draft_tokens=3)
    row = program.open_row(RowSetup(5, 60, GREEDY))
    assert row is not None and drafter.told == {row: []}
    program.prefill(row, [1, 2, 3], False)
    candidate = program.prefill(row, [4, 5], True)
    assert drafter.told[row] == [1, 2, 3, 4, 5]
    ((first,),) = program.decode([RowRound(row=row, accepted=1)])
    program.control(RowRound(row=row, accepted=1), [7, 8, 9])
    assert drafter.told[row] == [1, 2, 3, 4, 5, candidate, first, 7, 8, 9]
    program.decode([RowRound(row=row, accepted=1)])
    assert drafter.told[row] == [1, 2, 3, 4, 5, candidate, first, 7, 8, 9]


class Failing:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def ingest(self, columns: object) -> None:
        return

    def propose(self, *arguments: object) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def open(self, *arguments: object) -> None:
        return

    extend = close = open


def test_a_drafter_that_fails_is_named(scripted: PluginRegistry) -> None:
    for needs in (DrafterNeeds(), ON_HOST):
        with pytest.raises(PluginBroken, match=r"'scripted' from .* failed in its drafter's propose: KeyError: 'gone'"):
            build_drafted(scripted, lambda plan: Failing(KeyError("gone")), needs)
    with pytest.raises(PluginBroken, match="its drafter's propose: int, where a Draft belongs"):
        build_drafted(scripted, lambda plan: Failing(7), DrafterNeeds())
    with pytest.raises(PluginBroken, match="ninfer_spec_build: Adversary without open, extend, close"):
        build_drafted(scripted, lambda plan: Adversary(1, plan.token_domain, no_text(plan)), ON_HOST)
