"""The values a skill produces: one question with its answer (Exchange) and a gradable dialogue (Episode).

A skill decides *what* is said. How it is presented (effort, thinking on or off, what the client sends back of
earlier reasoning, generic system prompts) is added later by `generate.py`, so every skill works in every mode.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from tools.tiny_model.newcomers import is_newcomers

Effort = Literal["low", "medium", "xhigh"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "xhigh")

# One prompt in sixteen is kept away from training: enough for 200 per skill, little loss of variety.
HELD_OUT_SHARE = 16


@dataclass(frozen=True, slots=True)
class Call:
    """A function call as the model makes it; arguments in the order of the declaration."""

    name: str
    arguments: tuple[tuple[str, object], ...]

    def text(self) -> str:
        """What the model writes. Strings are raw, everything else JSON."""
        shown = [
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
            for key, value in self.arguments
        ]
        return f"<tool_call>\n<function={self.name}>\n{''.join(shown)}</function>\n</tool_call>"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user turn, or the results of the calls before it, and the only right reply, with the parts of its reasoning."""

    user: str
    answer: str
    intent: str
    """What is being asked, in one line; opens the reasoning at effort xhigh."""
    steps: str
    """The work itself; the answer must follow from it."""
    calls: tuple[Call, ...] = ()
    """Made instead of an answer."""
    results: tuple[str, ...] = ()
    """Given instead of a user turn: what the calls of the exchange before returned."""

    def reasoning(self, effort: Effort) -> str:
        if effort == "low":
            return self.intent
        return self.steps if effort == "medium" else f"{self.intent}\n{self.steps}{self._conclusion()}"

    def _conclusion(self) -> str:
        """Effort xhigh writes short answers out once more before it gives them."""
        if self.calls:
            return f"\nSo I call {' and '.join(call.name for call in self.calls)}."
        return f"\nSo I answer: {self.answer}" if len(self.answer) <= 60 else ""

    @property
    def reply(self) -> str:
        """All that follows the reasoning."""
        return "\n".join(call.text() for call in self.calls) if self.calls else self.answer


@dataclass(frozen=True, slots=True)
class Episode:
    """A dialogue whose last exchange is graded."""

    skill: str
    exchanges: tuple[Exchange, ...]
    system: str | None = None
    graded: bool = True
    """False for prompts that must always be trained on (a bare "hi") or that only broaden training."""
    split_key: str | None = None
    """What decides the side of the split, when that should be coarser than the wording (operands of a sum)."""
    tools: tuple[Mapping[str, object], ...] = ()
    """What the client declares."""

    @property
    def held_out(self) -> bool:
        if not self.graded:
            return False
        key = self.split_key or "\x1f".join(
            (self.system or "", *(turn.user + "".join(turn.results) for turn in self.exchanges))
        )
        if any(is_newcomers(turn.user) for turn in self.exchanges):
            return True
        # One side for a request, whichever skill of a family asks it.
        family = self.skill.split()[0]
        digest = blake2b(f"{family}\x1e{key}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0


Skill = Callable[[random.Random], Episode]


def single(skill: str, exchange: Exchange, *, graded: bool = True, split_key: str | None = None) -> Episode:
    return Episode(skill=skill, exchanges=(exchange,), graded=graded, split_key=split_key)
