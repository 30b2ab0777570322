"""The embedded model behind `ninfer serve`: it answers held-out prompts, and company does not change an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from ninfer_core.testing.server_process import server_process
from tools.tiny_model.evaluate_http import Outcome, evaluate
from tools.tiny_model.generate import Item
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.skills import SKILLS

LEAST_SHARE_RIGHT = 0.95
"""Of the held-out prompts of a skill (issue 5)."""
LEAST_SHARE_RECALLED = 0.9
"""Of the dialogues of up to 8 k tokens (issue 5)."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with server_process("--max-concurrency", "8", "--kv-capacity", "auto", "--pending-timeout-ms", "600000") as server:
        server.wait_ready()
        yield f"{server.url}/v1"


def ask(base_url: str, items: list[Item], concurrency: int) -> list[Outcome]:
    return asyncio.run(evaluate(base_url, items, concurrency))


@pytest.mark.contract("EXEC-2", "GEN-8")
def test_eight_clients_get_the_texts_of_one_at_a_time(base_url: str) -> None:
    items = list(held_out_items(1, "xhigh"))
    together, alone = (ask(base_url, items, concurrency) for concurrency in (8, 1))
    assert [(outcome.said, outcome.called) for outcome in together] == [(each.said, each.called) for each in alone]
    assert sum(outcome.right for outcome in alone) >= len(items) - 1


@pytest.mark.long
def test_every_skill_holds_on_prompts_that_training_never_saw(base_url: str) -> None:
    right: Counter[str] = Counter()
    for outcome in ask(base_url, list(held_out_items(40, "xhigh")), 8):
        right[outcome.item.skill] += outcome.right
    assert len(right) == len(SKILLS) - 1
    assert {skill: count for skill, count in right.items() if count < LEAST_SHARE_RIGHT * 40} == {}


@pytest.mark.long
def test_one_line_is_found_among_eight_thousand_tokens(base_url: str) -> None:
    outcomes = ask(base_url, list(held_out_items(20, "xhigh", long=True)), 8)
    assert sum(outcome.right for outcome in outcomes) >= LEAST_SHARE_RECALLED * len(outcomes)
