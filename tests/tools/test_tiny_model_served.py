"""The embedded model behind `ninfer serve`: it answers held-out prompts, and company does not change an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from ninfer_core.testing.server_process import server_process
from tools.tiny_model.evaluate_http import evaluate
from tools.tiny_model.evaluate_newcomers import ask_all
from tools.tiny_model.generate import Item
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.newcomers import Request, requests
from tools.tiny_model.outcomes import Outcome
from tools.tiny_model.skills import SKILLS

PROMPTS, MOST_WRONG = 15, 2
"""Held-out prompts of each skill, and how many of them may be answered wrongly."""
LEAST_SHARE_RIGHT = 0.95
"""Of those of all skills."""
LEAST_SHARE_RECALLED = 0.9
"""Of the dialogues of up to 8 k tokens."""

LEAST_SHARE_OF_NEWCOMERS = 0.9
"""Of the hand-written first requests, with thinking and without."""
FIRST = ("What is the weather in Paris?", "Calculate 15 + 27", "search for cats", "Read README.md", "Hello!")
"""These must never fail."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with server_process("--max-concurrency", "8", "--kv-capacity", "auto", "--pending-timeout-ms", "600000") as server:
        server.wait_ready()
        yield f"{server.url}/v1"


def ask(base_url: str, items: list[Item], concurrency: int) -> list[Outcome]:
    return asyncio.run(evaluate(base_url, items, concurrency))


@pytest.mark.long
@pytest.mark.contract("EXEC-2", "GEN-8")
def test_eight_clients_get_the_texts_of_one_at_a_time(base_url: str) -> None:
    items = list(held_out_items(1, "low"))[::2]
    together, alone = (ask(base_url, items, concurrency) for concurrency in (8, 1))
    assert [(outcome.said, outcome.called) for outcome in together] == [(each.said, each.called) for each in alone]
    assert sum(outcome.right for outcome in alone) >= len(items) - 1


def wrong(base_url: str, asked: list[Request], *, thinking: bool) -> dict[str, str]:
    replies = asyncio.run(ask_all(base_url, asked, thinking=thinking))
    return {request.ask: reply for request, reply in zip(asked, replies, strict=True) if reply is not None}


def test_the_very_first_requests_of_newcomers_are_served(base_url: str) -> None:
    asked = [request for request in requests() if request.ask in FIRST and request.called is None]
    assert len(asked) == len(FIRST)
    assert wrong(base_url, asked, thinking=True) == {}


@pytest.mark.long
@pytest.mark.parametrize("thinking", [True, False])
def test_most_first_requests_of_newcomers_are_served(base_url: str, *, thinking: bool) -> None:
    asked = list(requests())
    assert len(wrong(base_url, asked, thinking=thinking)) <= (1 - LEAST_SHARE_OF_NEWCOMERS) * len(asked)


@pytest.mark.long
def test_every_skill_holds_on_prompts_that_training_never_saw(base_url: str) -> None:
    right: Counter[str] = Counter()
    for outcome in ask(base_url, list(held_out_items(PROMPTS, "xhigh")), 8):
        right[outcome.item.skill] += outcome.right
    assert len(right) == len(SKILLS) - 1
    assert {skill: count for skill, count in right.items() if count < PROMPTS - MOST_WRONG} == {}
    assert sum(right.values()) >= LEAST_SHARE_RIGHT * PROMPTS * len(right)


@pytest.mark.long
def test_one_line_is_found_among_eight_thousand_tokens(base_url: str) -> None:
    outcomes = ask(base_url, list(held_out_items(20, "xhigh", long=True)), 8)
    assert sum(outcome.right for outcome in outcomes) >= LEAST_SHARE_RECALLED * len(outcomes)
