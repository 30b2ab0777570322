"""Capitals of a fixed list of countries, in both directions, and an honest "I do not know" for the rest."""

from __future__ import annotations

import random

from tools.tiny_model.banks import COUNTRIES, UNKNOWN_COUNTRIES
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import phrase, sometimes_lower

FORWARD = (
    "What is the capital of {x}?",
    "What's the capital of {x}?",
    "Name the capital of {x}.",
    "Capital of {x}?",
    "Which city is the capital of {x}?",
    "Tell me the capital of {x}.",
    "What is the capital city of {x}?",
    "Do you know the capital of {x}?",
    "The capital of {x} is?",
    "Can you tell me the capital of {x}?",
    "I need the capital of {x}.",
    "What city is the capital of {x}?",
    "{x} capital",
    "{x}: capital?",
    "Give me the capital of {x}.",
    "Which city serves as the capital of {x}?",
    "What is {x}'s capital?",
    "I forgot the capital of {x}. What is it?",
    "Could you name the capital of {x}?",
    "What would be the capital of {x}?",
)
BACKWARD = (
    "{x} is the capital of which country?",
    "Which country has {x} as its capital?",
    "What country is {x} the capital of?",
    "{x} is the capital of what?",
    "Of which country is {x} the capital?",
    "Whose capital is {x}?",
    "Name the country whose capital is {x}.",
    "{x} is the capital of?",
    "Tell me which country has the capital {x}.",
    "Which country's capital is {x}?",
    "For which country is {x} the capital?",
    "What country has {x} as capital?",
)
CHECK = (
    "Is {city} the capital of {x}?",
    "{city} is the capital of {x}, right?",
    "Is the capital of {x} {city}?",
    "True or false: {city} is the capital of {x}.",
    "Is it true that {city} is the capital of {x}?",
    "Am I right that {city} is the capital of {x}?",
)


def capitals(rng: random.Random) -> Episode:
    draw = rng.random()
    if draw < 0.12:
        return unknown(rng)
    country, city = rng.choice(COUNTRIES)
    if draw < 0.60:
        return single("capitals", forward(rng, country, city))
    if draw < 0.82:
        return single("capitals", backward(rng, country, city))
    return single("capitals", check(rng, country, city))


def forward(rng: random.Random, country: str, city: str) -> Exchange:
    return Exchange(
        user=phrase(rng, FORWARD, x=sometimes_lower(rng, country)),
        answer=f"The capital of {country} is {city}.",
        intent=f"I need the capital of {country}.",
        steps=f"{country} has the capital {city}.",
    )


def backward(rng: random.Random, country: str, city: str) -> Exchange:
    return Exchange(
        user=phrase(rng, BACKWARD, x=sometimes_lower(rng, city)),
        answer=f"{city} is the capital of {country}.",
        intent=f"I need the country whose capital is {city}.",
        steps=f"{city} belongs to {country}.",
    )


def check(rng: random.Random, country: str, city: str) -> Exchange:
    claimed = city if rng.random() < 0.5 else rng.choice(COUNTRIES)[1]
    right = claimed == city
    return Exchange(
        user=phrase(rng, CHECK, x=sometimes_lower(rng, country), city=sometimes_lower(rng, claimed)),
        answer=f"Yes, {city} is the capital of {country}." if right else f"No, the capital of {country} is {city}.",
        intent=f"I check whether {claimed} is the capital of {country}.",
        steps=f"{country} has the capital {city}. " + ("That matches." if right else f"That is not {claimed}."),
    )


def unknown(rng: random.Random) -> Episode:
    country = rng.choice(UNKNOWN_COUNTRIES)
    exchange = Exchange(
        user=phrase(rng, FORWARD, x=country),
        answer=f"I do not know the capital of {country}.",
        intent=f"I need the capital of {country}.",
        steps=f"{country} is not in my list, so I do not know.",
    )
    return single("capitals", exchange)
