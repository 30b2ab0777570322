"""Sums, differences, small products and exact quotients, worked digit by digit."""

from __future__ import annotations

import random

from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import phrase

PLACES = ("Ones", "Tens", "Hundreds", "Thousands")
FORMS: dict[str, tuple[str, ...]] = {
    "+": (
        "What is {a} + {b}?",
        "{a} + {b}",
        "{a}+{b}",
        "{a} + {b} = ?",
        "Compute {a} + {b}.",
        "What's {a} plus {b}?",
        "Add {a} and {b}.",
        "Add {b} to {a}.",
        "How much is {a} plus {b}?",
        "Calculate {a} + {b}.",
        "Find the sum of {a} and {b}.",
        "{a} plus {b} is what?",
        "Can you add {a} and {b}?",
        "What is {a}+{b}?",
        "{a}+{b}=?",
        "Tell me {a} + {b}.",
        "Please add {a} and {b}.",
    ),
    "-": (
        "What is {a} - {b}?",
        "{a} - {b}",
        "{a}-{b}",
        "{a} - {b} = ?",
        "Compute {a} - {b}.",
        "What's {a} minus {b}?",
        "Subtract {b} from {a}.",
        "How much is {a} minus {b}?",
        "Calculate {a} - {b}.",
        "Take {b} away from {a}.",
        "{a} minus {b} is what?",
        "Can you subtract {b} from {a}?",
        "What is {a}-{b}?",
        "{a}-{b}=?",
        "Find the difference of {a} and {b}: {a} - {b}.",
    ),
    "x": (
        "What is {a} x {b}?",
        "{a} x {b}",
        "{a} * {b}",
        "{a}*{b}",
        "Compute {a} * {b}.",
        "What's {a} times {b}?",
        "Multiply {a} by {b}.",
        "How much is {a} times {b}?",
        "Calculate {a} x {b}.",
        "{a} times {b}",
        "Find the product of {a} and {b}.",
        "What is {a} * {b}?",
        "Can you multiply {a} by {b}?",
        "{a} * {b} = ?",
    ),
    "/": (
        "What is {a} / {b}?",
        "{a} / {b}",
        "{a}/{b}",
        "Compute {a} / {b}.",
        "Divide {a} by {b}.",
        "What's {a} divided by {b}?",
        "How much is {a} divided by {b}?",
        "Calculate {a} / {b}.",
        "{a} / {b} = ?",
    ),
}
NAMES = {"+": "an addition", "-": "a subtraction", "x": "a multiplication", "/": "a division"}
TOO_HARD = "That is too hard for me. I can add and subtract numbers up to 999 and multiply small ones."


def arithmetic(rng: random.Random) -> Episode:
    draw = rng.random()
    if draw < 0.06:
        return too_hard(rng)
    if draw < 0.44:
        operation, a, b = "+", number(rng), number(rng)
    elif draw < 0.78:
        operation, a, b = "-", number(rng), number(rng)
        # Negative results stay in, but rarer than people would type them.
        if a < b and rng.random() < 0.7:
            a, b = b, a
    elif draw < 0.92:
        operation, a, b = (
            "x",
            *rng.choice(((rng.randint(0, 12), rng.randint(0, 12)), (rng.randint(11, 99), rng.randint(2, 9)))),
        )
        if rng.random() < 0.5:
            a, b = b, a
    else:
        b, quotient = rng.randint(1, 12), rng.randint(0, 12)
        operation, a = "/", b * quotient
    return graded_calculation(rng, operation, a, b)


def easy_sum(rng: random.Random) -> Episode:
    return graded_calculation(rng, rng.choice("+-"), rng.randint(10, 99), rng.randint(0, 10))


def graded_calculation(rng: random.Random, operation: str, a: int, b: int) -> Episode:
    exchange = calculation(rng, operation, a, b)
    # Sums are held out by operands: a held-out sum is never seen in any wording. Times tables are facts.
    return single("arithmetic", exchange, split_key=f"{a}{operation}{b}" if operation in "+-" else None)


def number(rng: random.Random) -> int:
    return rng.randrange(10 ** rng.choice((1, 2, 2, 3, 3, 3)))


def calculation(rng: random.Random, operation: str, a: int, b: int) -> Exchange:
    result = {"+": a + b, "-": a - b, "x": a * b, "/": a // b if operation == "/" else 0}[operation]
    return Exchange(
        user=phrase(rng, FORMS[operation], a=a, b=b),
        answer=f"{a} {operation} {b} = {result}",
        intent=f"This is {NAMES[operation]}: {a} {operation} {b}.",
        steps={"+": add_steps, "-": subtract_steps, "x": multiply_steps, "/": divide_steps}[operation](a, b),
    )


def add_steps(a: int, b: int) -> str:
    lines, carry = [], 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**place % 10, b // 10**place % 10
        total = x + y + carry
        carried = " + 1" if carry else ""
        carry = total // 10
        lines.append(f"{PLACES[place]}: {x} + {y}{carried} = {total}, write {total % 10}, carry {carry}.")
    return "\n".join((*lines, f"Result: {a + b}."))


def subtract_steps(a: int, b: int) -> str:
    if a < b:
        return (
            f"{a} is less than {b}, so I find {b} - {a} and put a minus.\n{subtract_steps(b, a)}\nWith minus: {a - b}."
        )
    lines, borrow = [], 0
    for place in range(len(str(a))):
        x, y = a // 10**place % 10, b // 10**place % 10
        top = x - borrow
        shown = f"{x} - 1 - {y}" if borrow else f"{x} - {y}"
        borrow = int(top < y)
        digit = top - y + 10 * borrow
        lines.append(f"{PLACES[place]}: {shown} = {top - y}, write {digit}, borrow {borrow}.")
    return "\n".join((*lines, f"Result: {a - b}."))


def multiply_steps(a: int, b: int) -> str:
    if max(a, b) <= 12:
        return f"From the times table: {a} x {b} = {a * b}."
    large, small = max(a, b), min(a, b)
    tens, ones = large // 10 * 10, large % 10
    return (
        f"{large} = {tens} + {ones}.\n{tens} x {small} = {tens * small}.\n{ones} x {small} = {ones * small}.\n"
        f"{add_steps(tens * small, ones * small)}"
    )


def divide_steps(a: int, b: int) -> str:
    return f"From the times table: {a // b} x {b} = {a}, so {a} / {b} = {a // b}."


def too_hard(rng: random.Random) -> Episode:
    operation = rng.choice("+-x/")
    a, b = rng.randint(10**3, 10 ** rng.randint(4, 9)), rng.randint(2, 10 ** rng.randint(1, 9))
    if operation == "x" and rng.random() < 0.6:
        a, b = rng.randint(100, 999), rng.randint(13, 999)
    if rng.random() < 0.5:
        a, b = b, a
    exchange = Exchange(
        user=phrase(rng, FORMS[operation], a=a, b=b),
        answer=TOO_HARD,
        intent=f"This is {NAMES[operation]} with large numbers.",
        steps="The numbers are larger than I can work with.",
    )
    return single("arithmetic", exchange)
