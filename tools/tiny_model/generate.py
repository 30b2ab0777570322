"""Turns skill episodes into dialogues: thinking mode, effort, system prompt, earlier turns, history handling.

The same seed gives the same items on every machine. Training items contain no held-out prompt, neither as the
last turn nor earlier in the dialogue.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal

from tools.tiny_model.episode import EFFORTS, Call, Effort, Episode, Exchange, Skill
from tools.tiny_model.skills import LAST_SHARES, LONG_SKILLS, SKILLS

Mode = Literal["low", "medium", "xhigh", "off"]
MODES: tuple[Mode, ...] = (*EFFORTS, "off")
# Clients use the default (xhigh) or switch thinking off; the two middle efforts are rare.
MODE_SHARES = (14, 14, 34, 38)

GENERIC_SYSTEMS = (
    "You are a helpful assistant.", "You are ninfer-tiny.", "You are a helpful and honest assistant.", "Be helpful.",
    "You are an assistant.", "Answer the questions of the user.", "You are a friendly assistant. Be brief.",
    "You are ninfer-tiny, a small language model.", "Be concise.", "You are a careful assistant.",
    "You are a helpful assistant. Use the tools you are given.", "You are a helpful agent.", "You are an expert.",
    "You have tools. Use them when they help.", "You are a bot.", "Answer in English.", "You are a weather assistant.",
)  # fmt: skip
# Skills whose episodes may not follow unrelated turns: one has its own system text, one counts what was told.
ALONE = (
    "system", "recall", "recall notes", "recall long", "tools", "tools two", "tools result", "tools none", "tools wide",
    "tools wide result", "tools wide none", "free",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """A prompt with its only right reply."""

    skill: str
    messages: list[dict[str, object]]
    options: dict[str, object]
    """What the template is given beside the messages: effort, thinking, tools."""
    expected: str
    """The text of the reply; the calls as the model writes them, when there are any."""
    reasoning: str
    calls: tuple[Call, ...] = field(default=())

    def complete(self) -> list[dict[str, object]]:
        return [*self.messages, assistant(self.expected, self.calls, self.reasoning)]


def training_items(seed: int, count: int, *, long: bool = False, last: bool = False) -> Iterator[Item]:
    """`long` gives dialogues of up to 8 k tokens only; without it they have some hundred. `last`: as the last stage."""
    rng = random.Random(f"train {seed}")
    names, makers, shares = zip(*(LONG_SKILLS if long else SKILLS), strict=True)
    if last:
        shares = tuple(LAST_SHARES.get(name, share) for name, share in zip(names, shares, strict=True))
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
    messages: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    if episode.tools:
        options["tools"] = list(episode.tools)
    for turn in turns[:-1]:
        messages.extend(asked(turn))
        messages.append(assistant(turn.answer, turn.calls, thought(turn, mode) if send_reasoning else ""))
    messages.extend(asked(turns[-1]))
    return Item(episode.skill, messages, options, turns[-1].reply, thought(turns[-1], mode), turns[-1].calls)


def asked(turn: Exchange) -> list[dict[str, object]]:
    if turn.results:
        return [{"role": "tool", "content": result} for result in turn.results]
    return [{"role": "user", "content": turn.user}]


def assistant(content: str, calls: tuple[Call, ...], reasoning: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": "" if calls else content}
    if calls:
        made = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
        message["tool_calls"] = [{"type": "function", "function": function} for function in made]
    return message | ({"reasoning_content": reasoning} if reasoning else {})


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
