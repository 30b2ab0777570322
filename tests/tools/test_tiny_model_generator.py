"""The dialogue generator: same seed, same items; held-out prompts stay held out; every skill can be answered."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

import pytest

from tools.tiny_model.episode import Skill
from tools.tiny_model.generate import MODES, Item, Mode, training_items
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.skills import LAST_SHARES, SKILLS
from tools.tiny_model.skills.arithmetic import add_steps, subtract_steps

# The same question can be trained on behind another system text, other tools, notes or earlier turns.
BY_CONTEXT = (
    "system", "recall", "recall notes", "tools result", "tools none", "tools wide result", "tools wide none",
)  # fmt: skip


def spoken(item: Item) -> list[str]:
    return [str(message["content"]) for message in item.messages if message["role"] in ("user", "tool")]


def test_same_seed_gives_the_same_items() -> None:
    first, second = ([asdict(item) for item in training_items(7, 60)] for _ in range(2))
    assert first == second
    assert first != [asdict(item) for item in training_items(8, 60)]


def digest(items: Iterable[Item]) -> str:
    said = hashlib.blake2b(digest_size=8)
    for item in items:
        said.update(json.dumps(asdict(item), ensure_ascii=False).encode())
    return said.hexdigest()


def test_the_dialogues_are_those_of_the_shipped_weights() -> None:
    """Whoever changes them makes another model: its scores are no repetition of the committed ones."""
    shards = {
        "first": training_items(1_000_000, 60),
        "first, long": training_items(1_000_001, 2, long=True),
        "second": training_items(2_000_000, 60, last=True),
        "drafters": training_items(11_000_000, 60),
        "held out": held_out_items(3, "xhigh"),
    }
    assert {name: digest(items) for name, items in shards.items()} == {
        "first": "dd0af7fa5a1e7c2a",
        "first, long": "e5ebfa040b9610e3",
        "second": "f948b6e2407f3e7a",
        "drafters": "f292853472b679ec",
        "held out": "d216d8ee9398bdb8",
    }


def test_the_last_stage_has_shares_of_its_own() -> None:
    assert set(LAST_SHARES) < {name for name, _, _ in SKILLS}
    first, last = (Counter(item.skill for item in training_items(1, 4000, last=last)) for last in (False, True))
    assert all(last[name] > 1.15 * first[name] for name in ("arithmetic", "passage", "system"))
    assert last["tools wide"] < 0.85 * first["tools wide"]


def test_training_holds_no_held_out_prompt() -> None:
    # Followed here by prompt and system text, the strictest reading that still allows "hi" under any system text.
    held_out = {spoken(item)[-1] for item in held_out_items(40, "xhigh") if item.skill not in BY_CONTEXT}
    seen = {text for item in training_items(3, 4000) if item.skill != "system" for text in spoken(item)}
    assert not held_out & seen


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, make, _ in SKILLS])
def test_the_split_follows_the_episode(name: str, make: Skill) -> None:
    rng = random.Random(1)
    episodes = [make(rng) for _ in range(400)]
    assert {episode.skill for episode in episodes} == {name}
    share = sum(episode.held_out for episode in episodes) / len(episodes)
    assert 0.01 < share < 0.15
    assert not any(episode.held_out for episode in episodes if not episode.graded)


def test_held_out_prompts_are_distinct_and_the_same_in_every_mode() -> None:
    by_mode = {mode: list(held_out_items(12, mode)) for mode in MODES}
    for items in by_mode.values():
        assert [item.expected for item in items] == [item.expected for item in by_mode["off"]]
        assert [spoken(item)[-1] for item in items] == [spoken(item)[-1] for item in by_mode["off"]]
    assert len(by_mode["off"]) == 12 * (len(SKILLS) - 1)
    assert "free" not in {item.skill for item in by_mode["off"]}


@pytest.mark.parametrize("mode", MODES)
def test_every_skill_has_an_answer_in_every_mode(mode: Mode) -> None:
    for item in held_out_items(8, mode):
        assert item.expected == item.expected.strip() != ""
        assert bool(item.reasoning) == (mode != "off")
        assert item.messages[-1]["role"] in ("user", "tool")
        assert (item.options.get("enable_thinking") is False) == (mode == "off")


def test_one_prompt_has_one_answer() -> None:
    answers: dict[str, str] = {}
    for item in training_items(5, 3000):
        if len(item.messages) == 1 and "tools" not in item.options and item.skill != "free":
            assert answers.setdefault(str(item.messages[0]["content"]), item.expected) == item.expected


def test_json_answers_parse() -> None:
    items = [item for item in held_out_items(30, "off") if item.skill == "json"]
    assert all(isinstance(json.loads(item.expected), dict) for item in items)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (9, 1), (999, 999), (100, 1), (305, 98), (7, 430)])
def test_sums_are_worked_correctly(a: int, b: int) -> None:
    assert add_steps(a, b).endswith(f"Result: {a + b}.")
    steps = subtract_steps(a, b)
    digits = [line.split("write ")[1][0] for line in steps.splitlines() if "write" in line]
    assert int("".join(reversed(digits))) == abs(a - b)
