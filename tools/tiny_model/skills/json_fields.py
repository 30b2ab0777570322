"""Extracting named fields of a short record as one line of JSON."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from tools.tiny_model.banks import COLOURS, JOBS, NAMES, THINGS, TOWNS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import a_or_an

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVENTS = (
    "concert",
    "meeting",
    "party",
    "lesson",
    "match",
    "exam",
    "wedding",
    "lunch",
    "dinner",
    "show",
    "talk",
    "walk",
)
Value = str | int


@dataclass(frozen=True, slots=True)
class Record:
    """Texts that state all `fields`, in slots of the same names."""

    fields: tuple[str, ...]
    texts: tuple[str, ...]


RECORDS = (
    Record(
        ("name", "age", "city"),
        (
            "{name} is {age} years old and lives in {city}.",
            "My name is {name}, I am {age} and I come from {city}.",
            "{name} ({age}) from {city} won the prize.",
            "In {city} I met {name}, who is {age}.",
        ),
    ),
    Record(
        ("name", "job", "city"),
        (
            "{name} works as {a_job} in {city}.",
            "{name}, {a_job} from {city}, called today.",
            "The new {job} in {city} is {name}.",
        ),
    ),
    Record(
        ("name", "email", "phone"),
        (
            "Contact {name} at {email} or {phone}.",
            "{name} can be reached by mail ({email}) and by phone ({phone}).",
            "Name: {name}, mail: {email}, phone: {phone}.",
        ),
    ),
    Record(
        ("product", "price", "colour"),
        (
            "The {colour} {product} costs {price} euros.",
            "I bought {a_colour} {product} for {price} euros.",
            "For sale: {product}, {colour}, {price} euros.",
        ),
    ),
    Record(
        ("item", "quantity", "customer"),
        (
            "{customer} ordered {quantity} of the item {item}.",
            "Order: {quantity} x {item} for {customer}.",
            "Please send {quantity} pieces of {item} to {customer}.",
        ),
    ),
    Record(
        ("event", "day", "city"),
        (
            "The {event} is on {day} in {city}.",
            "On {day} there is {a_event} in {city}.",
            "{city} hosts the {event} this {day}.",
        ),
    ),
    Record(
        ("name", "date"),
        (
            "{name} was born on {date}.",
            "The birthday of {name} is {date}.",
            "{date} is the day {name} was born.",
        ),
    ),
)
FORMS = (
    "Extract {keys} as JSON: ",
    "Give me {keys} as JSON from this text: ",
    "Return JSON with {keys}. Text: ",
    "Make JSON with the fields {keys}: ",
    "Turn this into JSON with {keys}: ",
    "Write {keys} as a JSON object: ",
    "JSON with {keys} please: ",
    "Extract the fields {keys} and answer in JSON.\n\n",
    "Read the text and output JSON with {keys}.\n",
    "I need {keys} in JSON format: ",
    "Find {keys} and reply with JSON only.\n\n",
)
AFTER = (
    "\n\nExtract {keys} as JSON.",
    "\nGive me {keys} as JSON.",
    " Return {keys} as JSON.",
    "\n\nWrite JSON with {keys}.",
)


def json_fields(rng: random.Random) -> Episode:
    record = rng.choice(RECORDS)
    values = draw_values(rng, record.fields)
    articles = {f"a_{key}": a_or_an(str(value)) for key, value in values.items()}
    text = rng.choice(record.texts).format(**values, **articles)
    keys = list(record.fields)
    if rng.random() < 0.35:
        rng.shuffle(keys)
    keys = keys[: rng.choice((2, 2, len(keys), len(keys)))]
    missing = rng.random() < 0.12
    if missing:
        extra = rng.choice([key for other in RECORDS for key in other.fields if key not in values])
        keys[rng.randrange(len(keys))] = extra
    wanted: dict[str, Value | None] = {key: values.get(key) for key in keys}
    joined = f"{', '.join(keys[:-1])} and {keys[-1]}" if rng.random() < 0.6 else ", ".join(keys)
    user = (
        loosen_form(rng, FORMS).format(keys=joined) + text
        if rng.random() < 0.75
        else text + rng.choice(AFTER).format(keys=joined)
    )
    found = [f"{key}: {'not in the text' if value is None else value}" for key, value in wanted.items()]
    answer = json.dumps(wanted)
    return single("json", Exchange(user, answer, f"I extract {', '.join(keys)}.", "\n".join(found)))


def loosen_form(rng: random.Random, forms: tuple[str, ...]) -> str:
    form = rng.choice(forms)
    return form.lower() if rng.random() < 0.3 else form


def draw_values(rng: random.Random, fields: tuple[str, ...]) -> dict[str, Value]:
    name = rng.choice(NAMES)
    everything: dict[str, Value] = {
        "name": name,
        "customer": name,
        "age": rng.randint(5, 95),
        "city": rng.choice(TOWNS),
        "job": rng.choice(JOBS),
        "email": email(rng, name),
        "phone": "-".join(str(rng.randint(100, 999)) for _ in range(rng.choice((2, 3)))),
        "product": rng.choice(THINGS),
        "item": rng.choice(THINGS),
        "price": rng.randint(1, 999),
        "colour": rng.choice(COLOURS),
        "quantity": rng.randint(2, 60),
        "event": rng.choice(EVENTS),
        "day": rng.choice(DAYS),
        "date": f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(1930, 2024)}",
    }
    return {field: everything[field] for field in fields}


def email(rng: random.Random, name: str) -> str:
    # Half the time a stranger's name, so that the address has to be copied.
    owner = rng.choice((name, rng.choice(NAMES))).lower()
    mark, number = rng.choice(("", ".", "_")), rng.randint(1, 99)
    return f"{owner}{mark}{number}@{rng.choice(('mail', 'post', 'work', 'home'))}.{rng.choice(('com', 'org', 'net'))}"
