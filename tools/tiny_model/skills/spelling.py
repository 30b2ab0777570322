"""Letters of a word: spelling it out, writing it backwards, counting all letters or one of them."""

from __future__ import annotations

import random
from string import ascii_lowercase

from tools.tiny_model.banks import UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import phrase

SPELL = (
    "Spell {w}.",
    "Spell the word {w}.",
    "How do you spell {w}?",
    "Spell {w} letter by letter.",
    "Can you spell {w}?",
    "Write {w} letter by letter.",
    "Please spell {w}.",
    "Spell out {w}.",
    "How is {w} spelled?",
    "Give me the letters of {w}.",
    'spell "{w}"',
    "What are the letters in {w}?",
)
BACKWARDS = (
    "Write {w} backwards.",
    "Reverse the word {w}.",
    "Spell {w} backwards.",
    "What is {w} backwards?",
    "Write the word {w} in reverse.",
    "Reverse the letters of {w}.",
    "Can you write {w} backwards?",
    "What do you get if you reverse {w}?",
    "{w} backwards",
    "Turn the word {w} around.",
)
LENGTH = (
    "How many letters are in {w}?",
    "How many letters does {w} have?",
    "Count the letters in {w}.",
    "How long is the word {w}?",
    "What is the number of letters in {w}?",
    "How many letters are there in the word {w}?",
    "Tell me the length of {w}.",
)
COUNT = (
    "How many {c}'s are in {w}?",
    "How many times does {c} appear in {w}?",
    "Count the letter {c} in {w}.",
    "How often does the letter {c} occur in {w}?",
    "How many times is {c} in the word {w}?",
    "How many {c} are in {w}?",
    "In the word {w}, how many {c}'s are there?",
    "Count how many {c} there are in {w}.",
)


def spelling(rng: random.Random) -> Episode:
    # Invented words teach the letters of rare word pieces; they are never graded.
    invented = rng.random() < 0.3
    word = invented_word(rng) if invented else rng.choice(UNIQUE_WORDS)
    make = rng.choice((spell, backwards, length, count))
    return single("spelling", make(rng, word), graded=not invented)


def invented_word(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return "".join(rng.choices(ascii_lowercase, k=rng.randint(3, 7)))
    first, second = rng.choice(UNIQUE_WORDS), rng.choice(UNIQUE_WORDS)
    return first[: rng.randint(1, 4)] + second[-rng.randint(2, 4) :]


def spell(rng: random.Random, word: str) -> Exchange:
    return Exchange(
        phrase(rng, SPELL, w=word),
        "-".join(word),
        f"I spell {word}.",
        f"{word} has the letters {' '.join(word)}.",
    )


def backwards(rng: random.Random, word: str) -> Exchange:
    steps = f"Letters: {'-'.join(word)}.\nFrom the end: {'-'.join(word[::-1])}."
    return Exchange(phrase(rng, BACKWARDS, w=word), word[::-1], f"I write {word} backwards.", steps)


def length(rng: random.Random, word: str) -> Exchange:
    steps = " ".join(f"{letter} {place}" for place, letter in enumerate(word, start=1))
    return Exchange(
        phrase(rng, LENGTH, w=word),
        f"{word} has {len(word)} letters.",
        f"I count the letters of {word}.",
        f"{steps}. Total {len(word)}.",
    )


def count(rng: random.Random, word: str) -> Exchange:
    letter = rng.choice(word) if rng.random() < 0.85 else rng.choice(ascii_lowercase)
    seen, parts = 0, []
    for other in word:
        seen += other == letter
        parts.append(f"{other} yes {seen}" if other == letter else other)
    times = "1 time" if seen == 1 else f"{seen} times"
    return Exchange(
        phrase(rng, COUNT, w=word, c=letter),
        f"The letter {letter} appears {times} in {word}.",
        f"I count the letter {letter} in {word}.",
        f"{', '.join(parts)}. Total {seen}.",
    )
