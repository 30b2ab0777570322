"""Sampled answers with drafts keep to the request's settings: penalties, top-k, min-p."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache

import msgspec
import pytest
import torch

from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from tests.speculative.served import BACKENDS, QUESTIONS, Served, serve

SETTINGS = Sampling(
    temperature=1.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0
)
Backend = Callable[[str | None], Served]


@pytest.fixture(scope="module")
def backend() -> Backend:
    torch.set_num_threads(1)
    return cache(serve)


def with_settings(**fields: float) -> Sampling:
    return msgspec.structs.replace(SETTINGS, **fields)


def tokens_of(served: Served, prompts: list[tuple[int, ...]], settings: list[Sampling], most: int) -> list[list[int]]:
    """What the program yields for rows that run together, all of it taken."""
    program = served.program
    rows: list[int] = []
    answers: list[list[int]] = []
    for prompt, sampling in zip(prompts, settings, strict=True):
        row = program.open_row(RowSetup(len(prompt), len(prompt) + most + 16, sampling))
        assert row is not None
        first = program.prefill(row, prompt, last=True)
        assert first is not None
        rows.append(row)
        answers.append([first])
    taken = [1] * len(rows)
    while any(len(answer) < most for answer in answers):
        going = [place for place, answer in enumerate(answers) if len(answer) < most]
        found = program.decode([RowRound(rows[place], taken[place]) for place in going])
        for place, candidates in zip(going, found, strict=True):
            answers[place] += candidates
            taken[place] = len(candidates)
    for row in rows:
        program.close_row(row)
    return [answer[:most] for answer in answers]


@pytest.mark.parametrize(
    "name", ["dflash2", *(pytest.param(name, marks=pytest.mark.long) for name in ("mtp", "dflash"))]
)
def test_penalties_count_what_the_same_round_accepted(backend: Backend, name: str) -> None:
    """Handed case sp-02. With one candidate the choice is certain, whatever drafts were drawn from; penalties decide
    which it is, and a draft that was rejected must not count."""
    prompts = [backend(None).prompt(question)[0] for question in QUESTIONS[:4]]
    settings = [
        with_settings(top_k=1, temperature=0.7, presence_penalty=presence, frequency_penalty=frequency, seed=seed)
        for seed, (presence, frequency) in enumerate([(12.0, 0.0), (0.0, 6.0), (6.0, 6.0), (-8.0, -4.0)])
    ]
    without = tokens_of(backend(None), prompts, settings, 32)
    assert tokens_of(backend(name), prompts, settings, 32) == without
    plain = tokens_of(backend(None), prompts, [with_settings(top_k=1)] * 4, 32)
    assert sum(penalised != free for penalised, free in zip(without, plain, strict=True)) > 1, "penalties matter here"


@pytest.mark.parametrize("name", ["mtp", "dflash"])
def test_certain_drafts_leave_sampled_answers_as_they_are(backend: Backend, name: str) -> None:
    """Handed case sp-02 among them: the same seed gives the same tokens, and so the same frequencies."""
    prompts = [backend(None).prompt(question)[0] for question in QUESTIONS[4:8]]
    settings = [
        with_settings(seed=seed, temperature=heat, top_p=0.9, min_p=0.02, presence_penalty=1.5)
        for seed, heat in enumerate((0.7, 1.0, 1.3, 0.7))
    ]
    assert tokens_of(backend(name), prompts, settings, 24) == tokens_of(backend(None), prompts, settings, 24)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_token_is_one_that_the_settings_allow(backend: Backend, name: str) -> None:
    """Handed case sp-04, each token held against the model's own logits of what stands before it."""
    prompt, heat = backend(None).prompt(QUESTIONS[4])[0], 8.0
    settings = [with_settings(top_k=5, min_p=0.2, seed=seed, temperature=heat) for seed in range(3)]
    answers = tokens_of(backend(name), [prompt] * 3, settings, 12)
    assert len({tuple(answer) for answer in answers}) > 1
    judge, domain = backend(None).program, backend(None).plan.token_domain
    for answer in answers:
        for place, token in enumerate(answer):
            before = [*prompt, *answer[:place]]
            row = judge.open_row(RowSetup(len(before), len(before) + 1, SETTINGS))
            assert row is not None
            largest, ids = judge.prompt_logits(row, before)[:domain].float().topk(5)
            judge.close_row(row)
            allowed = ids[largest >= largest[0] + heat * math.log(0.2) - 1e-3].tolist()
            assert token in allowed, (place, token, allowed)


SAMPLES, LENGTH = 1000, 2


@pytest.mark.long
def test_the_law_of_tokens_that_dflash2_drew_is_the_one_without(backend: Backend) -> None:
    """Handed case sp-02, at a temperature at which so sure a model says several things: counts of the first token of
    rounds in 1000 answers with drafts and 1000 without, by a chi-square of two samples at one percent."""
    prompt = backend(None).prompt(QUESTIONS[4])[0]
    counts: list[Counter[tuple[int, ...]]] = []
    for name in (None, "dflash2"):
        served = serve(name, max_concurrency=8, kv_capacity=8 * 1024)
        answers: Counter[tuple[int, ...]] = Counter()
        for start in range(0, SAMPLES, 8):
            settings = [
                with_settings(temperature=5.0, presence_penalty=1.5, seed=1_000_000 + start + row) for row in range(8)
            ]
            answers.update(tuple(answer[1:2]) for answer in tokens_of(served, [prompt] * 8, settings, LENGTH))
        counts.append(answers)
    frequent = [key for key, number in (counts[0] + counts[1]).items() if number >= 10]
    cells = [[own[key] for own in counts] for key in frequent]
    cells.append([sum(own.values()) - sum(own[key] for key in frequent) for own in counts])
    cells = [cell for cell in cells if sum(cell) >= 10]
    statistic = sum((first - second) ** 2 / (first + second) for first, second in cells)
    freedom = len(cells) - 1
    assert freedom >= 3, "the answers differ"
    # Wilson and Hilferty's approximation of the 99th percentile of chi-square.
    limit = freedom * (1 - 2 / (9 * freedom) + 2.326 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, (statistic, limit, cells)
