"""What the arguments of tools can be, and what the tools return for them."""

from __future__ import annotations

import json
import random

from tools.tiny_model.banks import COLOURS, FOODS, NAMES, PETS, THINGS, TOWNS, UNIQUE_WORDS, words
from tools.tiny_model.skills.json_fields import DAYS

Outcome = tuple[str, str]
Arguments = dict[str, object]

ENDINGS = ("txt", "md", "log", "csv", "py", "json", "toml")
FOLDERS = ("", "", "docs/", "src/", "data/", "/tmp/", "/home/anna/", "notes/", "logs/2026/")
SKIES = words("sunny cloudy rainy windy foggy snowy clear stormy")
CURRENCIES = ("EUR", "USD", "GBP", "JPY", "CHF", "SEK", "CNY")
ROOMS = words("kitchen bedroom bathroom office garage hall cellar garden")
EVENTS = words("meeting concert lunch dinner party lesson exam match call walk workshop interview")


def town(rng: random.Random) -> str:
    return rng.choice(TOWNS)


def degree_unit(rng: random.Random) -> str:
    return rng.choice(("celsius", "fahrenheit"))


def expression(rng: random.Random) -> str:
    a, b, c = (rng.randint(2, 10 ** rng.choice((1, 2, 3, 4))) for _ in range(3))
    first, second = rng.choice("+-*"), rng.choice("+-*")
    return rng.choice((f"{a} {first} {b}", f"{a}{first}{b}", f"({a} {first} {b}) {second} {c}", f"{a} * {b}"))


def query(rng: random.Random) -> str:
    one, other = rng.choice(UNIQUE_WORDS), rng.choice(UNIQUE_WORDS)
    return rng.choice((one, f"{one} {other}", f"history of {rng.choice(TOWNS)}",
                       f"how to make {rng.choice(FOODS)}",
                       f"best {one} in {rng.choice(TOWNS)}",
                       f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"))  # fmt: skip


def few(rng: random.Random) -> int:
    return rng.randint(2, 20)


def path(rng: random.Random) -> str:
    stem = rng.choice((rng.choice(UNIQUE_WORDS), f"{rng.choice(UNIQUE_WORDS)}_{rng.randint(1, 99)}",
                       f"{rng.choice(UNIQUE_WORDS)}-{rng.choice(UNIQUE_WORDS)}"))  # fmt: skip
    return f"{rng.choice(FOLDERS)}{stem}.{rng.choice(ENDINGS)}"


def first_line(rng: random.Random) -> int:
    return rng.randint(1, 40)


def last_line(rng: random.Random) -> int:
    return rng.randint(41, 300)


def sentence(rng: random.Random) -> str:
    one, name = rng.choice(UNIQUE_WORDS), rng.choice(NAMES)
    return rng.choice((
        f"I am late by {rng.randint(5, 50)} minutes.", f"Please bring the {rng.choice(THINGS)}.",
        f"Dinner is at {clock(rng)}.", f"The {one} is ready.", f"{name} is in {rng.choice(TOWNS)} now.",
        f"Can you buy {rng.choice(FOODS)}?", f"See you on {rng.choice(DAYS)}.", f"My {rng.choice(PETS)} is well again.",
    ))  # fmt: skip


def lines(rng: random.Random) -> str:
    kinds = (
        lambda: f"{rng.choice(NAMES)}: {rng.randint(1, 999)}",
        lambda: f"- {rng.choice(UNIQUE_WORDS)}",
        lambda: f"{rng.choice(UNIQUE_WORDS)} = {rng.randint(0, 99)}",
        lambda: sentence(rng),
        lambda: f"{rng.choice(UNIQUE_WORDS)},{rng.randint(1, 99)},{rng.choice(COLOURS)}",
    )
    line = rng.choice(kinds)
    return "\n".join(line() for _ in range(rng.randint(1, 4)))


def program(rng: random.Random) -> str:
    name, n, m = rng.choice(UNIQUE_WORDS), rng.randint(2, 9), rng.randint(2, 99)
    return rng.choice((
        f'print("{name}")', f"for i in range({n}):\n    print(i)", f"{name} = {m}\nprint({name} + {n})",
        f'words = ["{name}", "{rng.choice(UNIQUE_WORDS)}"]\nfor word in words:\n    print(word)',
        f"if {m} > {n}:\n    print('{name}')\nelse:\n    print({n})",
    ))  # fmt: skip


def person(rng: random.Random) -> str:
    return rng.choice(NAMES)


def event(rng: random.Random) -> str:
    return rng.choice(EVENTS)


def day(rng: random.Random) -> str:
    return rng.choice(DAYS)


def clock(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02d}:{rng.choice((0, 0, 15, 30, 45)):02d}"


def amount(rng: random.Random) -> float | int:
    return rng.choice((rng.randint(1, 5000), rng.randint(1, 999) + 0.5, rng.randint(1, 20) * 100))


def currency(rng: random.Random) -> str:
    return rng.choice(CURRENCIES)


def minutes(rng: random.Random) -> int:
    return rng.randint(1, 90)


def food(rng: random.Random) -> str:
    return rng.choice(FOODS)


def room(rng: random.Random) -> str:
    return rng.choice(ROOMS)


def yes(rng: random.Random) -> bool:
    return rng.random() < 0.5


def song(rng: random.Random) -> str:
    one, other = rng.choice(UNIQUE_WORDS).capitalize(), rng.choice(UNIQUE_WORDS).capitalize()
    return rng.choice((f"{one} and {other}", f"{one} {other}", f"The {one}", f"My {one} in {rng.choice(TOWNS)}"))


def restaurant(rng: random.Random) -> str:
    return rng.choice((f"Chez {rng.choice(NAMES)}", f"Golden {rng.choice(UNIQUE_WORDS).capitalize()}",
                       f"The {rng.choice(COLOURS).capitalize()} {rng.choice(PETS).capitalize()}"))  # fmt: skip


def people(rng: random.Random) -> int:
    return rng.randint(2, 12)


def as_json(**fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False)


def weather_outcome(rng: random.Random, given: Arguments) -> Outcome:
    degrees, sky = rng.randint(-15, 38), rng.choice(SKIES)
    unit = "F" if given.get("unit") == "fahrenheit" else "C"
    result = rng.choice((as_json(temperature=degrees, condition=sky), as_json(condition=sky, temperature=degrees),
                         f"{sky}, {degrees} degrees"))  # fmt: skip
    return result, f"In {given['city']} it is {sky} at {degrees} °{unit}."


def calculator_outcome(rng: random.Random, given: Arguments) -> Outcome:
    del rng
    # Only digits, operators and brackets that this module wrote itself.
    result = str(eval(str(given["expression"])))
    return result, f"{given['expression']} = {result}"


def search_outcome(rng: random.Random, given: Arguments) -> Outcome:
    titles = [f"{rng.choice(UNIQUE_WORDS).capitalize()} {rng.choice(UNIQUE_WORDS)}" for _ in range(rng.randint(1, 3))]
    found = rng.choice((json.dumps([{"title": title} for title in titles]), "\n".join(titles)))
    return found, f"I found these pages about {given['query']}: {', '.join(titles)}."


def read_outcome(rng: random.Random, given: Arguments) -> Outcome:
    if rng.random() < 0.15:
        return "Error: file not found", f"I cannot read {given['path']}: file not found."
    content = lines(rng)
    return content, f"{given['path']} says:\n{content}"


def write_outcome(rng: random.Random, given: Arguments) -> Outcome:
    if rng.random() < 0.15:
        return "Error: permission denied", f"I cannot write {given['path']}: permission denied."
    return "ok", f"I saved {given['path']}."


def python_outcome(rng: random.Random, given: Arguments) -> Outcome:
    del given
    printed = "\n".join(
        rng.choice((rng.choice(UNIQUE_WORDS), str(rng.randint(0, 200)))) for _ in range(rng.randint(1, 3))
    )
    return printed, f"It prints:\n{printed}"


def sent_outcome(rng: random.Random, given: Arguments) -> Outcome:
    if rng.random() < 0.15:
        return "Error: unknown contact", f"I cannot reach {given['to']}: unknown contact."
    return rng.choice(("ok", "sent", '{"status": "sent"}')), f"I sent your message to {given['to']}."


def event_outcome(rng: random.Random, given: Arguments) -> Outcome:
    number = rng.randint(10, 999)
    return as_json(id=number), f"The {given['title']} on {given['day']} at {given['time']} is entry {number}."


def money_outcome(rng: random.Random, given: Arguments) -> Outcome:
    worth = f"{rng.randint(1, 9999)}.{rng.randint(10, 99)}"
    return worth, f"{given['amount']} {given['from']} are {worth} {given['to']}."


def timer_outcome(rng: random.Random, given: Arguments) -> Outcome:
    return rng.choice(("ok", '{"status": "running"}')), f"The timer runs for {given['minutes']} minutes."


def time_outcome(rng: random.Random, given: Arguments) -> Outcome:
    now = clock(rng)
    return rng.choice((now, as_json(time=now))), f"In {given['city']} it is {now}."


def light_outcome(rng: random.Random, given: Arguments) -> Outcome:
    return rng.choice(("ok", "done")), f"The light in the {given['room']} is {'on' if given['on'] else 'off'}."


def music_outcome(rng: random.Random, given: Arguments) -> Outcome:
    if rng.random() < 0.2:
        return "Error: not found", f"I cannot play {given['title']}: not found."
    return rng.choice(("ok", "playing")), f"Now you hear {given['title']}."


def table_outcome(rng: random.Random, given: Arguments) -> Outcome:
    if rng.random() < 0.3:
        return "full", f"{given['restaurant']} has no table at {given['time']}."
    return rng.choice(("ok", "booked")), f"Your table for {given['people']} at {given['restaurant']} is booked."
