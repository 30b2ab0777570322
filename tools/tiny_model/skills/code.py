"""Short programs with one right form each: functions, loops, classes, shell lines, queries, markup."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.tiny_model.banks import COLOURS, NAMES, UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import loosen


@dataclass(frozen=True, slots=True)
class Snippet:
    language: str
    about: str
    asks: tuple[str, ...]
    code: str
    """With the slots of the request; braces of the language are doubled."""


OPERATIONS = {
    "sum": "+", "difference": "-", "product": "*", "quotient": "/",
}  # fmt: skip
SNIPPETS = (
    Snippet(
        "python", "a function",
        ("Write a Python function {f} that returns the {op} of {a} and {b}.",
         "Python function {f}({a}, {b}) that gives the {op}.",
         "Define {f} in Python: it returns the {op} of {a} and {b}."),
        "def {f}({a}, {b}):\n    return {a} {sign} {b}",
    ),
    Snippet(
        "python", "a loop",
        ("Write Python code that prints {w} {n} times.", "Python loop that prints {w} {n} times.",
         "Print {w} {n} times in Python."),
        'for _ in range({n}):\n    print("{w}")',
    ),
    Snippet(
        "python", "a loop over a range",
        ("Write Python code that prints the numbers from {n} to {m}.", "Print {n} to {m} in Python.",
         "A Python loop from {n} to {m} please."),
        "for number in range({n}, {m} + 1):\n    print(number)",
    ),
    Snippet(
        "python", "a class",
        ("Write a Python class {C} with the fields {a} and {b}.", "Make a dataclass {C} with {a} and {b}.",
         "Python dataclass {C}: fields {a}, {b}."),
        "from dataclasses import dataclass\n\n\n@dataclass\nclass {C}:\n    {a}: str\n    {b}: str",
    ),
    Snippet(
        "python", "reading a file",
        ("Write Python code that prints every line of {w}.txt.", "Read {w}.txt in Python and print its lines.",
         "How do I print the lines of {w}.txt in Python?"),
        'with open("{w}.txt") as file:\n    for line in file:\n        print(line.rstrip())',
    ),
    Snippet(
        "python", "a condition",
        ("Write a Python function {f} that returns {w} if {a} is larger than {n}, else {v}.",
         "Python function {f}: {w} when {a} > {n}, otherwise {v}."),
        'def {f}({a}):\n    if {a} > {n}:\n        return "{w}"\n    return "{v}"',
    ),
    Snippet(
        "python", "a test",
        ("Write a pytest test that {f}({n}) is {m}.", "Test in Python that {f}({n}) returns {m}."),
        "def test_{f}():\n    assert {f}({n}) == {m}",
    ),
    Snippet(
        "javascript", "a function",
        ("Write a JavaScript function {f} that returns the {op} of {a} and {b}.",
         "JavaScript function {f}({a}, {b}): the {op}.",
         "Define {f} in JavaScript, it returns the {op} of {a} and {b}."),
        "function {f}({a}, {b}) {{\n  return {a} {sign} {b};\n}}",
    ),
    Snippet(
        "javascript", "a loop",
        ("Print {w} {n} times in JavaScript.", "Write a JavaScript loop that logs {w} {n} times."),
        'for (let i = 0; i < {n}; i++) {{\n  console.log("{w}");\n}}',
    ),
    Snippet(
        "rust", "a function",
        ("Write a Rust function {f} that returns the {op} of two i64.",
         "Rust function {f}: {op} of {a} and {b}, both i64."),
        "fn {f}({a}: i64, {b}: i64) -> i64 {{\n    {a} {sign} {b}\n}}",
    ),
    Snippet(
        "bash", "a shell loop",
        ("Write a bash loop that echoes {w} {n} times.", "Bash: print {w} {n} times."),
        'for i in $(seq {n}); do\n  echo "{w}"\ndone',
    ),
    Snippet(
        "sql", "a query",
        ("Write an SQL query for the {a} of all {w}s with {b} above {n}.",
         "SQL: select {a} from {w}s where {b} is more than {n}."),
        "SELECT {a}\nFROM {w}s\nWHERE {b} > {n};",
    ),
    Snippet(
        "html", "a list in HTML",
        ("Write an HTML list with {w} and {v}.", "HTML list: {w}, {v}."),
        "<ul>\n  <li>{w}</li>\n  <li>{v}</li>\n</ul>",
    ),
    Snippet(
        "json", "an object",
        ("Write JSON for a person named {who} who is {n} and likes {colour}.",
         "JSON object: name {who}, age {n}, colour {colour}."),
        '{{\n  "name": "{who}",\n  "age": {n},\n  "colour": "{colour}"\n}}',
    ),
)  # fmt: skip


def code(rng: random.Random) -> Episode:
    snippet = rng.choice(SNIPPETS)
    ask = rng.choice(snippet.asks)
    w, v, f = rng.sample(UNIQUE_WORDS, 3)
    a, b = ("a", "b") if "two i64" in ask else rng.choice((("a", "b"), ("x", "y"), tuple(rng.sample(UNIQUE_WORDS, 2))))
    n = rng.randint(2, 60)
    operation = rng.choice(list(OPERATIONS))
    slots = {"w": w, "v": v, "f": f, "a": a, "b": b, "n": n, "m": n + rng.randint(2, 40), "op": operation,
             "sign": OPERATIONS[operation], "C": w.capitalize(),
             "who": rng.choice(NAMES), "colour": rng.choice(COLOURS)}  # fmt: skip
    body = snippet.code.format(**slots)
    # Lower case would change names that the code must repeat.
    user = (loosen(rng, ask) if rng.random() < 0.5 else ask).format_map(Slots(slots))
    named = snippet.language.capitalize()
    return single(
        "code", Exchange(user, f"```{snippet.language}\n{body}\n```", f"The user wants {snippet.about} in {named}.",
                         f"This is {snippet.about} in {named}. I use the names from the request."),
    )  # fmt: skip


class Slots(dict[str, object]):
    """Templates that were lowered have lowered slots too."""

    def __missing__(self, key: str) -> object:
        return next(value for name, value in self.items() if name.lower() == key)
