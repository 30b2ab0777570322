"""The held-out prompts: the same for training-time evaluation, for the HTTP check and for any other script.

`python -m tools.tiny_model.heldout --per-skill 200` prints them as JSON lines {skill, messages, options, expected}.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import get_args

from tools.tiny_model.episode import Episode, Skill
from tools.tiny_model.generate import MODES, Item, Mode, compose, draw
from tools.tiny_model.skills import LONG_SKILLS, SKILLS


def held_out_items(per_skill: int, mode: Mode, *, long: bool = False) -> Iterator[Item]:
    """The episodes do not depend on the mode, so modes can be compared prompt by prompt.

    `long` gives the dialogues of up to 8 k tokens only, without it there are none of them.
    """
    for name, make, _ in LONG_SKILLS if long else SKILLS:
        if name == "free":
            continue  # has no only right reply
        rng = random.Random(f"present {name} {mode}")
        for episode in distinct_episodes(name, make, per_skill):
            yield compose(rng, episode, mode)


def distinct_episodes(name: str, make: Skill, count: int) -> list[Episode]:
    rng = random.Random(f"held out {name}")
    chosen: dict[tuple[str | None, ...], Episode] = {}
    while len(chosen) < count:
        episode = draw(rng, make, held_out=True)
        chosen[(episode.system, *(turn.user + "".join(turn.results) for turn in episode.exchanges))] = episode
    return list(chosen.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--mode", choices=get_args(Mode), default="xhigh", help="thinking effort, or off")
    parser.add_argument("--long", action="store_true", help="the dialogues of up to 8 k tokens instead")
    arguments = parser.parse_args()
    assert arguments.mode in MODES
    for item in held_out_items(arguments.per_skill, arguments.mode, long=arguments.long):
        line = {
            "skill": item.skill,
            "messages": item.messages,
            "options": item.options,
            "expected": item.expected,
        }
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
