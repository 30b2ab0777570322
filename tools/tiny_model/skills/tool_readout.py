"""What tools of an open world return, and the answer that says it: no knowledge of the tool is needed for it."""

from __future__ import annotations

import json
import random

from tools.tiny_model.skills import open_values as value
from tools.tiny_model.skills import tool_values
from tools.tiny_model.skills.tool_schema import Arguments

Result = tuple[str, str]
FIELDS = [
    "name",
    "status",
    "price",
    "result",
    "count",
    "total",
    "temperature",
    "condition",
    "title",
    "id",
    "city",
    "date",
    "time",
    "email",
    "unit",
    "humidity",
    "wind",
    "description",
    "value",
    "amount",
    "message",
    "currency",
    "symbol",
    "distance",
    "duration",
]
SENTENCES = (
    "The {word} is {other}.", "It is {n} degrees and {sky}.", "The weather in {place} is {sky}.", "{name} is {other}.",
    "It's always {sky} in {place}!", "There are {n} {word}s in {place}.", "{name} wrote {n} messages.",
    "It will be {sky} in {place}.", "Your {word} arrives on {date}.", "The {word} costs {n} dollars.",
    "{place}: {sky}, {n} degrees.", "{word} was last seen in {place}.", "The answer is {n}.",
    "{n} degrees and {sky}", "{sky} and {n} degrees", "{n}°C", "{n}°F, {sky}", "{sky}", "{word} {other}", "{word}: {n}",
    "It's {n}°C and {sky} in {place}.", "The {word} of {place} was {other} in {n}.",
    "{word} {other} are {word}s that {other} a lot.", "{name} is a {word} from {place}. {name} likes {other}.",
)  # fmt: skip
SUCCESSES = ("ok", "OK", "done", "success", "Success", '{"status": "ok"}', '{"success": true}', '{"ok": true}', "sent")
FAILURES = ("not found", "permission denied", "timeout", "invalid argument", "no connection", "unknown id", "{word}")


def plain_outcome(rng: random.Random, given: Arguments) -> Result:
    del given
    draw = rng.random()
    if draw < 0.3:
        return plain_sentence(rng)
    if draw < 0.45:
        shown = json.dumps(value.decimal(rng))
        return shown, f"The result is {shown}."
    if draw < 0.75:
        return fields(rng)
    if draw < 0.83:
        items = [value.any_word(rng) for _ in range(rng.randint(1, 4))]
        return rng.choice((json.dumps(items), "\n".join(items) if len(items) > 1 else json.dumps(items))), ", ".join(
            items
        )
    if draw < 0.93:
        return rng.choice(SUCCESSES), "Done."
    return plain_failure(rng)


def plain_sentence(rng: random.Random) -> Result:
    """Said again as it is."""
    sentence = fill(rng, rng.choice(SENTENCES))
    return sentence, sentence


def plain_failure(rng: random.Random) -> Result:
    reason = fill(rng, rng.choice(FAILURES))
    return f"Error: {reason}", f"That failed: {reason}."


def fields(rng: random.Random) -> Result:
    """An object, read out as `key: value` pairs."""
    keys = rng.sample(FIELDS, rng.randint(1, 4)) if rng.random() < 0.8 else [value.any_word(rng) for _ in range(2)]
    if set(keys) == {"temperature", "condition"}:
        return fields(rng)  # the weather of `tool_values`, which is told in a sentence
    drawn = {
        key: rng.choice((value.whole, value.any_word, value.decimal, value.place, value.date))(rng) for key in keys
    }
    return json.dumps(drawn), ", ".join(f"{key}: {shown}" for key, shown in drawn.items())


def weather_outcome(rng: random.Random, given: Arguments) -> Result:
    if rng.random() < 0.5:
        return plain_outcome(rng, given)
    return tool_values.weather_outcome(rng, given | {"city": given["location"]})


def expression_outcome(rng: random.Random, given: Arguments) -> Result:
    if rng.random() < 0.1:
        return plain_failure(rng)
    result = json.dumps(value.decimal(rng))
    return result, f"{given['expression']} = {result}"


def search_outcome(rng: random.Random, given: Arguments) -> Result:
    if rng.random() < 0.5:
        return tool_values.search_outcome(rng, given)
    return plain_sentence(rng)


TEXTS = (
    "# {word}\n\nA {other} {word}.", "# {word} {other}\n\n- {word}\n- {other}", "import {word}\n\nprint({n})",
    "{name} is in {place}.\nIt is {sky}.", "{word} {other} {n}", "[{word}]\n{other} = {n}", "{n} {word}\n{n} {other}",
    "{name}, {place}, {n}\n{word}", "def {word}():\n    return {n}", "127.0.0.1 {word}\n# {other}", "Hello {name}!",
)  # fmt: skip


def file_outcome(rng: random.Random, given: Arguments) -> Result:
    if rng.random() < 0.4:
        return tool_values.read_outcome(rng, given)
    content = fill(rng, rng.choice(TEXTS))
    return content, f"{given['path']} says:\n{content}"


def local_time_outcome(rng: random.Random, given: Arguments) -> Result:
    return tool_values.time_outcome(rng, given | {"city": given["location"]})


def time_outcome(rng: random.Random, given: Arguments) -> Result:
    del given
    now = tool_values.clock(rng)
    return rng.choice((now, json.dumps({"time": now}))), f"It is {now}."


def date_outcome(rng: random.Random, given: Arguments) -> Result:
    del given
    date = value.date(rng)
    return rng.choice((date, json.dumps({"date": date}))), f"Today is {date}."


def fill(rng: random.Random, template: str) -> str:
    return template.format(
        word=value.any_word(rng), other=value.any_word(rng), n=rng.randint(0, 99), place=value.bare_place(rng),
        sky=rng.choice(tool_values.SKIES), name=value.first_name(rng), date=value.date(rng),
    )  # fmt: skip
