"""Finding one line among hundreds: long notes, long files from a tool, long conversations."""

from __future__ import annotations

import random

from tools.tiny_model.banks import COLOURS, FOODS, JOBS, NAMES, PETS, THINGS, TOWNS, UNIQUE_WORDS
from tools.tiny_model.episode import Call, Episode, Exchange
from tools.tiny_model.skills.json_fields import DAYS
from tools.tiny_model.skills.tool_bank import FUNCTIONS
from tools.tiny_model.skills.tool_schema import declare
from tools.tiny_model.skills.tool_values import path, sentence
from tools.tiny_model.wording import loosen

# Characters; a token is about three of them.
SHORTEST, LONGEST = 1_500, 20_500
FACTS = (
    ("The {key} is {v}.", "What is the {key}?", "The {key} is {v}."),
    ("Remember: the {key} is {v}.", "Which {key} was noted?", "The {key} is {v}."),
    ("Note: {key} = {v}", "What is the value of the {key}?", "The {key} is {v}."),
)
KEYS = ("password", "code", "number", "key", "secret", "address", "room", "price")
FRAMES = (
    "Here are my notes.\n\n{text}\n\n{question}", "{text}\n\nQuestion: {question}", "{question}\n\n{text}",
    "Read this and answer: {question}\n\n{text}", "{text}\n{question}",
)  # fmt: skip


def recall_notes(rng: random.Random) -> Episode:
    return of_size(rng, "recall notes", rng.randint(150, SHORTEST))


def recall_long(rng: random.Random) -> Episode:
    return of_size(rng, "recall long", int(SHORTEST * (LONGEST / SHORTEST) ** rng.random()))


def of_size(rng: random.Random, skill: str, characters: int) -> Episode:
    lines = filler(rng, characters)
    facts = {}
    while len(facts) < rng.randint(1, 4):
        facts[f"{rng.choice(KEYS)} of the {rng.choice(COLOURS)} {rng.choice(THINGS)}"] = value(rng)
    forms = {key: rng.choice(FACTS) for key in facts}
    for key, said in facts.items():
        lines.insert(rng.randint(0, len(lines)), forms[key][0].format(key=key, v=said))
    key = rng.choice(list(facts))
    question = loosen(rng, forms[key][1].replace("{key}", "\x00"), polite=False).replace("\x00", key)
    answer = forms[key][2].format(key=key, v=facts[key])
    steps = f"I look for the {key}. The line says: {forms[key][0].format(key=key, v=facts[key])}"
    asked = f"The user asks for the {key}."
    if rng.random() < 0.15:
        return from_file(rng, skill, "\n".join(lines), Exchange(question, answer, asked, steps))
    if rng.random() < 0.25:
        return over_turns(rng, skill, lines, Exchange(question, answer, asked, steps))
    user = rng.choice(FRAMES).format(text="\n".join(lines), question=question)
    return Episode(skill, (Exchange(user, answer, asked, steps),))


def value(rng: random.Random) -> str:
    return rng.choice(
        (str(rng.randint(10, 9999)), rng.choice(UNIQUE_WORDS), f"{rng.choice(UNIQUE_WORDS)}-{rng.randint(1, 99)}")
    )


def filler(rng: random.Random, characters: int) -> list[str]:
    lines: list[str] = []
    size = 0
    numbered = rng.random() < 0.4
    while size < characters:
        line = one_line(rng)
        lines.append(f"{len(lines) + 1}. {line}" if numbered else line)
        size += len(lines[-1])
    return lines


def one_line(rng: random.Random) -> str:
    name, town = rng.choice(NAMES), rng.choice(TOWNS)
    kind = rng.randrange(7)
    if kind == 0:
        return f"On {rng.choice(DAYS)} {name} went to {town} with {rng.choice(NAMES)}."
    if kind == 1:
        return f"{name} bought {rng.choice(FOODS)} and a {rng.choice(COLOURS)} {rng.choice(THINGS)} in {town}."
    if kind == 2:
        return f"The {rng.choice(UNIQUE_WORDS)} near the {rng.choice(UNIQUE_WORDS)} was {rng.choice(COLOURS)}."
    if kind == 3:
        return f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d} {rng.choice(UNIQUE_WORDS)} {rng.randint(1, 9999)}"
    if kind == 4:
        return f"{name} wrote: {sentence(rng)}"
    if kind == 5:
        return f"The {rng.choice(JOBS)} from {town} has a {rng.choice(PETS)} and {rng.randint(2, 90)} " + (
            f"{rng.choice(UNIQUE_WORDS)}s."
        )
    return f"{rng.choice(KEYS)} {rng.choice(UNIQUE_WORDS)}: {rng.choice(UNIQUE_WORDS)} {rng.randint(1, 999)}"


def from_file(rng: random.Random, skill: str, text: str, question: Exchange) -> Episode:
    """The text is what a tool returned."""
    tool = declare(rng, next(function for function in FUNCTIONS if "read_file" in function.names))
    name = path(rng)
    call = Call(tool.name, ((tool.keys[0], name),))
    first = Exchange(f"{question.user} It is in {name}.", "", "The user wants the content of a file.",
                     f"{tool.name} is for the content of a file: {tool.keys[0]} {name}.", calls=(call,))  # fmt: skip
    after = Exchange("", question.answer, question.intent, question.steps, results=(text,))
    return Episode(skill, (first, after), tools=(tool.schema(),))


def over_turns(rng: random.Random, skill: str, lines: list[str], question: Exchange) -> Episode:
    """The text comes in several messages; the model only confirms them."""
    turns: list[Exchange] = []
    while lines:
        count = rng.randint(1, max(2, len(lines) // 2))
        part, lines = lines[:count], lines[count:]
        turns.append(Exchange("\n".join(part), "Noted.", "The user gives me notes.", "I only keep them in mind."))
    return Episode(skill, (*turns, question))
