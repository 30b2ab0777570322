"""With any backend an answer is the one without, token for token: on the embedded model, on the CPU in float32.

Drafts that are certain change nothing of a sampled answer either, since acceptance draws what would have been drawn
without them; DFlash2 draws its own, so that sampled answers are others of the same law.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest
import torch

from tests.speculative.served import BACKENDS, QUESTIONS, Outcome, Served, Wish, play, random_wishes, serve
from tools.tiny_model.draft_measure import prompts_of

Backend = Callable[[str | None], Served]


@pytest.fixture(scope="module")
def backend() -> Backend:
    torch.set_num_threads(1)
    return cache(serve)


@pytest.fixture(scope="module")
def wishes(backend: Backend) -> list[Wish]:
    prompts = [backend(None).prompt(question) for question in QUESTIONS]
    return random_wishes(prompts, random.Random(5), most=64)


@pytest.fixture(scope="module")
def without(backend: Backend, wishes: list[Wish]) -> list[Outcome]:
    return play(backend(None), wishes)


def check_same(name: str, wishes: list[Wish], found: list[Outcome], without: list[Outcome]) -> None:
    for wish, outcome, expected in zip(wishes, found, without, strict=True):
        if wish.greedy or name != "dflash2":
            assert outcome.begins(expected) or expected.begins(outcome), (wish, outcome, expected)
            if wish.cancel_after is None:
                assert outcome.seen == expected.seen, (wish, outcome, expected)


@pytest.mark.contract("EXEC-19", "GEN-25")
@pytest.mark.parametrize("name", BACKENDS)
def test_answers_are_those_without_a_drafter(
    backend: Backend, wishes: list[Wish], without: list[Outcome], name: str
) -> None:
    """Greedy and sampled requests together, some of which end, are cut or leave within a round."""
    assert any(wish.cancel_after for wish in wishes) and any(wish.stop for wish in wishes)
    found = play(backend(name), wishes)
    check_same(name, wishes, found, without)
    told = [outcome.speculation for outcome in found if outcome.speculation]
    assert sum(each.accepted_tokens for each in told) > sum(each.rounds for each in told), "it drafts well"


@pytest.mark.contract("EXEC-2")
@pytest.mark.parametrize("name", BACKENDS)
def test_together_as_alone(backend: Backend, wishes: list[Wish], name: str) -> None:
    """Sampled answers of DFlash2 too: a request's stream does not depend on its batch mates."""
    served = backend(name)
    whole = [Wish(wish.token_ids, wish.channel, 12, greedy=wish.greedy, seed=wish.seed) for wish in wishes]
    assert {wish.greedy for wish in whole} == {True, False}
    together = play(served, whole)
    alone = [play(served, [wish])[0] for wish in whole]
    assert [outcome.seen for outcome in together] == [outcome.seen for outcome in alone]


@pytest.mark.contract("GEN-25", "OPT-24")
@pytest.mark.parametrize(
    ("name", "drafts"),
    [
        ("mtp", 5),
        ("dflash2", 15),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("mtp", 1), ("dflash", 2), ("dflash2", 1))),
    ],
)
def test_any_number_of_drafts(without: list[Outcome], wishes: list[Wish], name: str, drafts: int) -> None:
    found = play(serve(name, draft_tokens=drafts), wishes[:4])
    check_same(name, wishes[:4], found, without[:4])


@pytest.mark.contract("OPT-25")
@pytest.mark.parametrize("name", BACKENDS)
def test_a_reduced_head_changes_nothing(without: list[Outcome], wishes: list[Wish], name: str) -> None:
    found = play(serve(name, lm_head_draft=True), wishes[:4])
    check_same(name, wishes[:4], found, without[:4])


BUDGETS = (1, 4, 7, 64)


@pytest.fixture(scope="module")
def budgeted(backend: Backend) -> tuple[list[Wish], list[Outcome]]:
    token_ids, channel = backend(None).prompt("Add 12 and 30.")
    wishes = [Wish(token_ids, channel, 64 + budget, thinking_budget=budget) for budget in BUDGETS]
    return wishes, play(backend(None), wishes)


@pytest.mark.contract("EXEC-18", "TMPL-12", "TMPL-13")
@pytest.mark.parametrize("name", BACKENDS)
def test_a_thinking_budget_holds_to_the_token(
    backend: Backend, budgeted: tuple[list[Wish], list[Outcome]], name: str
) -> None:
    """Handed case sp-08, whose budget is 64, and smaller ones. What closes thinking is shown to the drafter: what
    follows is drafted as well as ever."""
    wishes, without = budgeted
    found = play(backend(name), wishes)
    assert [outcome.seen for outcome in found] == [outcome.seen for outcome in without]
    for outcome, budget in zip(found, BUDGETS, strict=True):
        assert outcome.ending is not None and outcome.ending[4], "the budget was spent"
        assert budget < outcome.ending[3] <= budget + outcome.ending[4], "what closes it counts as thinking too"
        assert outcome.text["content"]


@pytest.fixture(scope="module")
def short(backend: Backend) -> tuple[list[Wish], list[Outcome]]:
    wishes = [Wish(*backend(None).prompt(question), 200) for question in ("Who are you?", "Hello!")]
    return wishes, play(backend(None), wishes)


@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_behind_the_end_of_a_short_answer_is_taken(short: tuple[list[Wish], list[Outcome]], name: str) -> None:
    """Handed case sp-06: a very short answer, five drafts."""
    wishes, without = short
    found = play(serve(name, draft_tokens=5), wishes)
    assert [outcome.seen for outcome in found] == [outcome.seen for outcome in without]
    for outcome in found:
        assert outcome.ending is not None and outcome.ending[0] == "stop_token"
        told = outcome.speculation
        assert told is not None and told.accepted_tokens > told.rounds, "the end comes within a round of many tokens"


PROMPTS = 500


@pytest.mark.long
def test_500_prompts(backend: Backend) -> None:
    """Held-out prompts of all skills, short ones, with whatever a client may do; every backend, and as many rows as
    there may be."""
    prompts = [ids for kind in ("structured", "free") for ids in prompts_of(kind, PROMPTS) if len(ids) <= 120]
    chosen = random.Random(8).sample(prompts, PROMPTS)
    channels = [backend(None).channel(token_ids) for token_ids in chosen]
    wishes = random_wishes(list(zip(chosen, channels, strict=True)), random.Random(9), most=48)
    rows = {"max_concurrency": 8, "kv_capacity": 8 * 1024}
    without = play(serve(None, **rows), wishes)
    for name in BACKENDS:
        check_same(name, wishes, play(serve(name, **rows), wishes), without)
