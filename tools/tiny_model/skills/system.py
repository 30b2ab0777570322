"""Obeying an instruction in the system turn, applied to easy questions from the other skills."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.tiny_model.banks import COUNTRIES, JOBS, NAMES, UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange
from tools.tiny_model.skills.arithmetic import calculation
from tools.tiny_model.skills.capitals import backward, forward
from tools.tiny_model.skills.identity import ABOUT, HELLOS, OFFER, about, varied
from tools.tiny_model.skills.passage import question
from tools.tiny_model.wording import a_or_an, loosen

Rewrite = Callable[[str], str]
LEADS = ("", "", "", "You are a helpful assistant. ", "You are ninfer-tiny. ", "Important: ", "Rule: ")
UPPER = (
    "Answer in upper case.",
    "Write everything in capital letters.",
    "Use only capital letters.",
    "Reply in all caps.",
    "Always answer in uppercase letters.",
)
LOWER = (
    "Answer in lower case.",
    "Write everything in small letters.",
    "Use only lowercase letters.",
    "Never use capital letters.",
)
ENDING = (
    "End every answer with the word {w}.",
    "Your last word must be {w}.",
    "Finish each reply with the word {w}.",
    "Always end with {w}.",
)
OPENING = (
    "Start every answer with the word {w}.",
    "Your first word must be {w}.",
    "Begin each reply with the word {w}.",
    "Always start with {w}.",
)
ONE_WORD = (
    "Answer with one word.",
    "Reply with a single word only.",
    "Use only one word in your answer.",
    "One-word answers only.",
    "Answer in exactly one word.",
)
TWICE = ("Say everything twice.", "Repeat every answer.", "Give each answer two times.")
ROLES = (
    "a pirate",
    "a wizard",
    "a robot",
    "a dragon",
    "a knight",
    "a ghost",
    "a detective",
    "an astronaut",
    "a clown",
    "a king",
    "a queen",
    "an old sailor",
    "a friendly giant",
    "a time traveller",
    "a talking parrot",
    "a clever fox",
    "a space captain",
    "a quiet monk",
    *(a_or_an(job) for job in JOBS),
)
CHARACTER = (
    "You are {name}, {role}.",
    "Play the role of {name}, {role}.",
    "Speak as {name}, {role}.",
    "Pretend to be {name}, {role}.",
    "Your name is {name} and you are {role}.",
)
ASK_CHARACTER = ABOUT[0][2]


def system(rng: random.Random) -> Episode:
    draw = rng.random()
    turns = rng.choice((1, 1, 1, 2, 3))
    if draw < 0.25:
        return in_character(rng, turns)
    if draw < 0.45:
        return Episode("system", tuple(one_word(rng) for _ in range(turns)), rng.choice(LEADS) + rng.choice(ONE_WORD))
    rule, rewrite = styles(rng)
    return Episode(
        "system",
        tuple(restyled(plain_exchange(rng), rule, rewrite) for _ in range(turns)),
        rng.choice(LEADS) + rule,
    )


def styles(rng: random.Random) -> tuple[str, Rewrite]:
    """One rule, or two that do not interfere."""
    word = rng.choice(UNIQUE_WORDS)
    cases: tuple[tuple[str, Rewrite], ...] = ((rng.choice(UPPER), str.upper), (rng.choice(LOWER), str.lower))
    frames: tuple[tuple[str, Rewrite], ...] = (
        (rng.choice(ENDING).format(w=word), lambda answer: f"{answer} {word}"),
        (rng.choice(OPENING).format(w=word), lambda answer: f"{word} {answer}"),
        (rng.choice(TWICE), lambda answer: f"{answer} {answer}"),
    )
    draw = rng.random()
    if draw < 0.35:
        return rng.choice(cases)
    if draw < 0.85:
        return rng.choice(frames)
    (case_rule, case), (frame_rule, frame) = rng.choice(cases), rng.choice(frames)
    return f"{case_rule} {frame_rule}", lambda answer: case(frame(answer))


def restyled(exchange: Exchange, rule: str, rewrite: Rewrite) -> Exchange:
    steps = f"{exchange.steps}\nThe answer is: {exchange.answer}\nI follow the rule: {rule}"
    return Exchange(exchange.user, rewrite(exchange.answer), exchange.intent, steps)


def plain_exchange(rng: random.Random) -> Exchange:
    kind = rng.randrange(5)
    country, city = rng.choice(COUNTRIES)
    if kind == 0:
        return calculation(rng, rng.choice("+-"), rng.randint(10, 99), rng.randint(0, 10))
    if kind == 1:
        return about(rng)
    if kind == 2:
        return question(rng, rng.choice(("yes", "no")))
    return (forward if kind == 3 else backward)(rng, country, city)


def one_word(rng: random.Random) -> Exchange:
    kind = rng.randrange(3)
    if kind == 0:
        exchange = question(rng, rng.choice(("yes", "no")))
        return shortened(exchange, exchange.answer.rstrip("."))
    if kind == 1:
        a, b = rng.randint(10, 99), rng.randint(0, 10)
        operation = rng.choice("+-")
        return shortened(calculation(rng, operation, a, b), str(a + b if operation == "+" else a - b))
    country, city = rng.choice([pair for pair in COUNTRIES if " " not in "".join(pair)])
    if rng.random() < 0.6:
        return shortened(forward(rng, country, city), city)
    return shortened(backward(rng, country, city), country)


def shortened(exchange: Exchange, word: str) -> Exchange:
    return Exchange(exchange.user, word, exchange.intent, f"{exchange.steps}\nIn one word: {word}")


def in_character(rng: random.Random, turns: int) -> Episode:
    name, role = rng.choice(NAMES), rng.choice(ROLES)
    instruction = rng.choice(CHARACTER).format(name=name, role=role)
    return Episode("system", tuple(character_turn(rng, name, role) for _ in range(turns)), instruction)


def character_turn(rng: random.Random, name: str, role: str) -> Exchange:
    draw = rng.random()
    if draw < 0.55:
        return Exchange(
            loosen(rng, rng.choice(ASK_CHARACTER)),
            f"I am {name}, {role}.",
            "The user asks about me.",
            f"I play {name}, {role}.",
        )
    if draw < 0.75:
        hello = varied(rng, rng.choice(HELLOS)) + rng.choice(("", "!", "."))
        return Exchange(hello, f"Hello, I am {name}. {OFFER}", "The user greets me.", f"I play {name}, {role}.")
    country, city = rng.choice(COUNTRIES)
    return forward(rng, country, city)
