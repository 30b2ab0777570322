"""Turns skill episodes into dialogues: thinking mode, effort, system prompt, earlier turns, history handling.

The same seed gives the same items on every machine. Training items contain no held-out prompt, neither as the
last turn nor earlier in the dialogue.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from tools.tiny_model.episode import EFFORTS, Effort, Episode, Exchange, Skill
from tools.tiny_model.skills import SKILLS

Mode = Literal["low", "medium", "xhigh", "off"]
MODES: tuple[Mode, ...] = (*EFFORTS, "off")
# Clients use the default (xhigh) or switch thinking off; the two middle efforts are rare.
MODE_SHARES = (10, 10, 38, 42)

GENERIC_SYSTEMS = (
    "You are a helpful assistant.", "You are ninfer-tiny.", "You are a helpful and honest assistant.", "Be helpful.",
    "You are an assistant.", "Answer the questions of the user.", "You are a friendly assistant. Be brief.",
    "You are ninfer-tiny, a small language model.", "Be concise.", "You are a careful assistant.",
)  # fmt: skip
# Skills whose episodes may not follow unrelated turns: one has its own system text, one counts what was told.
ALONE = ("system", "recall")


@dataclass(frozen=True, slots=True)
class Item:
    """A prompt with its only right reply."""

    skill: str
    messages: list[dict[str, str]]
    options: dict[str, object]
    expected: str
    reasoning: str

    def complete(self) -> list[dict[str, str]]:
        reply = {"role": "assistant", "content": self.expected}
        return [*self.messages, reply | ({"reasoning_content": self.reasoning} if self.reasoning else {})]


def training_items(seed: int, count: int) -> Iterator[Item]:
    rng = random.Random(f"train {seed}")
    names, makers, shares = zip(*SKILLS, strict=True)
    for index in rng.choices(range(len(names)), shares, k=count):
        episode = draw(rng, makers[index], held_out=False)
        yield compose(rng, episode, rng.choices(MODES, MODE_SHARES)[0])


def draw(rng: random.Random, make: Skill, *, held_out: bool) -> Episode:
    while (episode := make(rng)).held_out != held_out:
        pass
    return episode


def compose(rng: random.Random, episode: Episode, mode: Mode) -> Item:
    turns = [*earlier_turns(rng, episode), *episode.exchanges]
    system = episode.system
    if system is None and rng.random() < 0.35:
        system = rng.choice(GENERIC_SYSTEMS)
    options = template_options(rng, mode)
    send_reasoning = mode != "off" and (options.get("preserve_thinking") is False or rng.random() < 0.55)
    messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []
    for turn in turns[:-1]:
        messages.append({"role": "user", "content": turn.user})
        reply = {"role": "assistant", "content": turn.answer}
        messages.append(reply | ({"reasoning_content": thought(turn, mode)} if send_reasoning else {}))
    messages.append({"role": "user", "content": turns[-1].user})
    return Item(episode.skill, messages, options, turns[-1].answer, thought(turns[-1], mode))


def thought(turn: Exchange, mode: Mode) -> str:
    effort: Effort | None = None if mode == "off" else mode
    return turn.reasoning(effort) if effort else ""


def earlier_turns(rng: random.Random, episode: Episode) -> list[Exchange]:
    if episode.skill in ALONE or rng.random() > 0.25:
        return []
    makers = [make for name, make, _ in SKILLS if name not in ALONE]
    episodes = [draw(rng, rng.choice(makers), held_out=False) for _ in range(rng.choice((1, 1, 2, 2, 3, 6)))]
    return [turn for other in episodes for turn in other.exchanges]


def template_options(rng: random.Random, mode: Mode) -> dict[str, object]:
    """What a client sends; the defaults are mostly left out, as clients do."""
    options: dict[str, object] = {}
    if mode == "off":
        options["enable_thinking"] = False
    elif mode != "xhigh" or rng.random() < 0.2:
        options["reasoning_effort"] = mode
    if rng.random() < 0.15:
        options["preserve_thinking"] = False
    return options


def main() -> None:
    parser = argparse.ArgumentParser(description="Print training dialogues as JSON lines.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    arguments = parser.parse_args()
    for item in training_items(arguments.seed, arguments.count):
        print(json.dumps(asdict(item), ensure_ascii=False))


if __name__ == "__main__":
    main()
