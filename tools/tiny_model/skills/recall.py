"""Remembering what the user said several turns ago: the latest value wins, and unknown things are admitted."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.tiny_model.banks import COLOURS, FOODS, JOBS, NAMES, PETS, TOWNS
from tools.tiny_model.episode import Episode, Exchange
from tools.tiny_model.skills.arithmetic import easy_sum
from tools.tiny_model.skills.capitals import capitals
from tools.tiny_model.skills.identity import identity
from tools.tiny_model.skills.spelling import spelling
from tools.tiny_model.wording import a_or_an, phrase


@dataclass(frozen=True, slots=True)
class Topic:
    key: str
    values: tuple[str, ...]
    statements: tuple[str, ...]
    questions: tuple[str, ...]

    def told(self, value: str) -> str:
        return f"Your {self.key} is {value}."


TOPICS = (
    Topic(
        "name",
        NAMES,
        ("My name is {v}.", "I am called {v}.", "I'm {v}.", "People call me {v}.", "You can call me {v}."),
        (
            "What is my name?",
            "What's my name?",
            "Do you remember my name?",
            "What am I called?",
            "Tell me my name.",
            "Who am I?",
        ),
    ),
    Topic(
        "favourite colour",
        COLOURS,
        (
            "My favourite colour is {v}.",
            "I like the colour {v} most.",
            "The colour I love is {v}.",
            "My favorite color is {v}.",
        ),
        (
            "What is my favourite colour?",
            "Which colour do I like most?",
            "What colour do I love?",
            "What's my favorite color?",
            "Do you remember my favourite colour?",
        ),
    ),
    Topic(
        "city",
        TOWNS,
        ("I live in {v}.", "My city is {v}.", "I come from {v}.", "My home is in {v}."),
        (
            "Where do I live?",
            "Which city do I live in?",
            "What is my city?",
            "What city am I from?",
            "Do you remember where I live?",
        ),
    ),
    Topic(
        "lucky number",
        tuple(map(str, range(2, 1000))),
        (
            "My lucky number is {v}.",
            "Remember the number {v}.",
            "The number to remember is {v}.",
            "{v} is my lucky number.",
        ),
        (
            "What is my lucky number?",
            "Which number did I tell you?",
            "What number should you remember?",
            "What's my number?",
            "Do you remember my lucky number?",
        ),
    ),
    Topic(
        "job",
        tuple(a_or_an(job) for job in JOBS),
        ("I work as {v}.", "I am {v}.", "My job is {v}.", "For work I am {v}."),
        ("What is my job?", "What do I do for work?", "What's my job?", "Do you remember my job?"),
    ),
    Topic(
        "pet",
        tuple(a_or_an(pet) for pet in PETS),
        ("I have {v}.", "My pet is {v}.", "At home I have {v}."),
        ("What is my pet?", "Which pet do I have?", "What pet do I have?", "Do you remember my pet?"),
    ),
    Topic(
        "favourite food",
        FOODS,
        ("My favourite food is {v}.", "I love to eat {v}.", "The food I like most is {v}."),
        (
            "What is my favourite food?",
            "What do I like to eat?",
            "Which food do I like most?",
            "Do you remember my favourite food?",
        ),
    ),
)


def recall(rng: random.Random) -> Episode:
    if rng.random() < 0.08:
        return at_once(rng)
    topics = rng.sample(TOPICS, rng.randint(1, 4))
    known: dict[str, str] = {}
    turns: list[Exchange] = []
    while topics:
        together, topics = (
            topics[: rng.choice((1, 1, 2))],
            topics[2 if len(topics) == 2 and rng.random() < 0.3 else 1 :],
        )
        together = [topic for topic in together if topic.key not in known]
        if together:
            turns.append(statement(rng, together, known))
        turns.extend(distraction(rng) for _ in range(rng.choice((0, 0, 1, 1, 2))))
    if rng.random() < 0.15:
        changed = rng.choice([topic for topic in TOPICS if topic.key in known])
        turns.append(change(rng, changed, known))
    asked = [topic for topic in TOPICS if (topic.key in known) == (rng.random() < 0.88)] or list(TOPICS)
    turns.extend(question(rng, topic, known) for topic in rng.sample(asked, min(len(asked), rng.choice((1, 1, 2)))))
    return Episode("recall", tuple(turns))


def at_once(rng: random.Random) -> Episode:
    """Told and asked in the same message."""
    topic = rng.choice(TOPICS)
    known: dict[str, str] = {}
    told = statement(rng, [topic], known)
    asked = question(rng, topic, known)
    return Episode("recall", (Exchange(f"{told.user} {asked.user}", asked.answer, asked.intent, asked.steps),))


def statement(rng: random.Random, topics: list[Topic], known: dict[str, str]) -> Exchange:
    told: list[str] = []
    for topic in topics:
        known[topic.key] = rng.choice(topic.values)
        told.append(phrase(rng, topic.statements, polite=False, v=known[topic.key]))
    facts = " ".join(topic.told(known[topic.key]) for topic in topics)
    return Exchange(" ".join(told), f"Noted. {facts}", "The user tells me something.", facts)


def change(rng: random.Random, topic: Topic, known: dict[str, str]) -> Exchange:
    known[topic.key] = rng.choice([value for value in topic.values if value != known[topic.key]])
    text = rng.choice(("Sorry, that was wrong. ", "Correction: ", "That has changed. ", "I made a mistake. "))
    fact = topic.told(known[topic.key])
    return Exchange(
        text + rng.choice(topic.statements).format(v=known[topic.key]),
        f"Noted. {fact}",
        "The user corrects something.",
        fact,
    )


def distraction(rng: random.Random) -> Exchange:
    """A turn about something else; never one that is held out for its own skill."""
    maker = rng.choice((easy_sum, identity, capitals, spelling))
    while (episode := maker(rng)).held_out:
        pass
    return episode.exchanges[0]


def question(rng: random.Random, topic: Topic, known: dict[str, str]) -> Exchange:
    value = known.get(topic.key)
    answer = topic.told(value) if value else f"You have not told me your {topic.key}."
    steps = f"The user told me: {topic.key} {value}." if value else f"I see no {topic.key} in this conversation."
    return Exchange(phrase(rng, topic.questions), answer, f"The user asks for the {topic.key}.", steps)
