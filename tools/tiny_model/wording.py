"""Turns a few clean templates into the many ways people type: casing, lost punctuation, politeness."""

from __future__ import annotations

import random
from collections.abc import Sequence

OPENERS = (
    "Hey, ",
    "Ok, ",
    "Hi! ",
    "Hello, ",
    "Quick question: ",
    "So, ",
    "Hi, ",
    "Next: ",
    "Now, ",
    "One more: ",
)
CLOSERS = (" Thanks!", " Thank you.", " Please.", " Thanks", " thx")


def phrase(rng: random.Random, templates: Sequence[str], *, polite: bool = True, **slots: object) -> str:
    """One template, loosened, with its `{slots}` filled. Slot values are never altered."""
    return loosen(rng, rng.choice(templates), polite=polite).format(**slots)


def loosen(rng: random.Random, template: str, *, polite: bool = True) -> str:
    """Changes only the fixed words of a template, so answers that copy a slot stay deterministic.

    `polite=False` adds no greeting and no thanks, where those would change what the reply should be.
    """
    lower = rng.random() < 0.35
    if polite and rng.random() < 0.12:
        opener = rng.choice(OPENERS)
        template = opener + (template[0].lower() + template[1:] if opener.endswith(", ") else template)
    # A template ending in a slot (a list, a passage) must end exactly there.
    if not template.endswith("}"):
        template = _loosen_end(rng, template, CLOSERS if polite else ("",))
    if lower:
        template = template.lower()
        if rng.random() < 0.4:
            template = template.replace("'", "")
    return template


def _loosen_end(rng: random.Random, template: str, closers: Sequence[str]) -> str:
    draw = rng.random()
    if draw < 0.25:
        return template.rstrip("?.!")
    if draw < 0.30:
        return template + template[-1]
    if draw < 0.38:
        return template + rng.choice(closers)
    return template


def sometimes_lower(rng: random.Random, text: str, chance: float = 0.25) -> str:
    return text.lower() if rng.random() < chance else text


def listed(items: Sequence[str]) -> str:
    return ", ".join(items)


def a_or_an(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
