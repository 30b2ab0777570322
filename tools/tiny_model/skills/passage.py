"""Questions about a short text: yes, no, the asked value, or that the text does not say."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.tiny_model.banks import COLOURS, FOODS, JOBS, NAMES, PETS, THINGS, TOWNS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import a_or_an, loosen

UNSAID = "The text does not say."


@dataclass(frozen=True, slots=True)
class Attribute:
    """One thing a text can state about a person; every form has the slots {name} and {value}."""

    values: tuple[str, ...]
    statements: tuple[str, ...]
    closed: tuple[str, ...]
    open: tuple[str, ...]


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(
        TOWNS,
        ("{name} lives in {value}.", "{name} has a house in {value}.", "The home of {name} is in {value}."),
        ("Does {name} live in {value}?", "Is the home of {name} in {value}?"),
        ("Where does {name} live?",),
    ),
    Attribute(
        tuple(a_or_an(job) for job in JOBS),
        ("{name} is {value}.", "{name} works as {value}."),
        ("Is {name} {value}?", "Does {name} work as {value}?"),
        ("What is the job of {name}?", "What does {name} do for work?"),
    ),
    Attribute(
        FOODS,
        ("{name} likes {value}.", "{name} loves to eat {value}.", "The favourite food of {name} is {value}."),
        ("Does {name} like {value}?", "Does {name} like to eat {value}?"),
        ("What does {name} like to eat?",),
    ),
    Attribute(
        tuple(a_or_an(pet) for pet in PETS),
        ("{name} has {value} at home.", "{name} keeps {value} as a pet."),
        ("Does {name} have {value}?", "Is the pet of {name} {value}?"),
        ("Which pet does {name} have?",),
    ),
    Attribute(
        tuple(f"{a_or_an(colour)} {thing}" for colour in COLOURS for thing in THINGS),
        (
            "{name} bought {value}.",
            "Last week {name} bought {value}.",
            "{name} went to the shop and bought {value}.",
        ),
        ("Did {name} buy {value}?",),
        ("What did {name} buy?",),
    ),
    Attribute(
        tuple(map(str, range(5, 90))),
        ("{name} is {value} years old.", "The age of {name} is {value}."),
        ("Is {name} {value} years old?", "Is the age of {name} {value}?"),
        ("How old is {name}?",),
    ),
)
FRAMES = (
    "{text}\n\nQuestion: {question}",
    "{text}\n{question}",
    "Read this text: {text}\n\n{question}",
    "Text: {text}\nQuestion: {question}",
    "Passage: {text}\n\n{question}",
    "Here is a text.\n\n{text}\n\n{question}",
    "{question}\n\nText: {text}",
    "Answer from the text. {text} {question}",
    "Given this passage: {text}\n{question}",
    "{text}\n\n{question} Answer yes or no.",
)


def passage(rng: random.Random) -> Episode:
    return single("passage", question(rng))


def question(rng: random.Random, kind: str | None = None) -> Exchange:
    """`kind` is yes, no, open or unsaid; chosen at random when absent."""
    people = rng.sample(NAMES, rng.choice((1, 2, 2, 3)))
    pairs = [(name, index) for name in people for index in range(len(ATTRIBUTES))]
    stated = rng.sample(pairs, rng.randint(2, 5))
    facts = {pair: rng.choice(ATTRIBUTES[pair[1]].values) for pair in stated}
    sentences = {
        pair: rng.choice(ATTRIBUTES[pair[1]].statements).format(name=pair[0], value=facts[pair]) for pair in stated
    }
    kind = kind or rng.choice(("yes", "yes", "no", "no", "open", "unsaid"))
    pair = rng.choice([other for other in pairs if (other in facts) != (kind == "unsaid")])
    name, attribute = pair[0], ATTRIBUTES[pair[1]]
    value = (
        facts[pair] if kind in ("yes", "open") else other_value(rng, attribute, facts.get(pair), list(facts.values()))
    )
    asked = loosen_question(rng, rng.choice(attribute.open if kind == "open" else attribute.closed))
    frames = FRAMES[:-1] if kind in ("open", "unsaid") else FRAMES
    user = rng.choice(frames).format(text=" ".join(sentences.values()), question=asked.format(name=name, value=value))
    answer = {"yes": "Yes.", "no": "No.", "open": f"{facts.get(pair, '')}.", "unsaid": UNSAID}[kind]
    # Reading out all sentences about the person keeps the facts of others from being mixed in.
    about = " ".join(sentence for (other, _), sentence in sentences.items() if other == name)
    found = f"About {name}: {about or 'nothing.'}\n"
    found += f'The text says: "{sentences[pair]}"' if pair in sentences else "The text has no sentence about this."
    compared = f"\nAsked: {value}. Said: {facts.get(pair)}. "
    judged = {"yes": f"{compared}Same.", "no": f"{compared}Different.", "open": "", "unsaid": ""}[kind]
    answer = answer[0].upper() + answer[1:]
    return Exchange(user, answer, f"The question: {asked.format(name=name, value=value)}", found + judged)


def other_value(rng: random.Random, attribute: Attribute, true: str | None, stated: list[str]) -> str:
    """A wrong value, often one that the text mentions elsewhere so that word spotting does not help."""
    tempting = [value for value in stated if value in attribute.values and value != true]
    if tempting and rng.random() < 0.5:
        return rng.choice(tempting)
    return rng.choice([value for value in attribute.values if value != true])


def loosen_question(rng: random.Random, template: str) -> str:
    """Only casing and the question mark vary: a thank-you inside a quoted frame would read oddly."""
    loosened = loosen(rng, template)
    return (
        loosened if loosened.lower().startswith(template[:3].lower()) and len(loosened) <= len(template) else template
    )
