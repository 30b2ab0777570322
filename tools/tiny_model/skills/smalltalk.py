"""Small talk with one fixed reply each, and honest refusals for everything outside the other skills."""

from __future__ import annotations

import random
from string import ascii_lowercase

from tools.tiny_model.banks import FOODS, JOBS, NAMES, THINGS, TOWNS, UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.skills.smalltalk_texts import BARE, TALK, UNCLEAR
from tools.tiny_model.wording import phrase


def smalltalk(rng: random.Random) -> Episode:
    draw = rng.random()
    if draw < 0.14:
        answer, why, templates = rng.choice(BARE)
        return single(
            "smalltalk",
            Exchange(phrase(rng, templates), answer, "I look at what the user wants.", why),
            graded=False,
        )
    if draw < 0.22:
        return single("smalltalk", gibberish(rng))
    # Half of it is the large class of things that are simply out of reach.
    answer, why, templates = TALK[0] if draw < 0.6 else rng.choice(TALK[1:])
    user = phrase(
        rng,
        templates,
        word=rng.choice(UNIQUE_WORDS),
        other=rng.choice(UNIQUE_WORDS),
        thing=rng.choice(THINGS),
        food=rng.choice(FOODS),
        name=rng.choice(NAMES),
        town=rng.choice(TOWNS),
        town2=rng.choice(TOWNS),
        n=rng.randint(2, 300),
        n2=rng.randint(2, 300),
        job=rng.choice(JOBS),
    )
    return single("smalltalk", Exchange(user, answer, "I look at what the user wants.", why))


def gibberish(rng: random.Random) -> Exchange:
    text = " ".join("".join(rng.choices(ascii_lowercase, k=rng.randint(3, 8))) for _ in range(rng.randint(1, 3)))
    return Exchange(text, UNCLEAR, "I look at what the user wants.", "I see no question here.")
