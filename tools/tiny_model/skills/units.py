"""Unit conversions with integers and short decimals: decimal shifts, and the factors of the clock and calendar."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import phrase


@dataclass(frozen=True, slots=True)
class Conversion:
    large: tuple[str, ...]
    """Symbol used in answers first, then the other spellings a prompt may use."""
    small: tuple[str, ...]
    factor: int
    most: int
    """Largest number of large units asked about."""


CONVERSIONS = (
    Conversion(("km", "kilometres", "kilometers"), ("m", "metres", "meters"), 1000, 99),
    Conversion(("m", "metres", "meters"), ("cm", "centimetres", "centimeters"), 100, 99),
    Conversion(("cm", "centimetres", "centimeters"), ("mm", "millimetres", "millimeters"), 10, 99),
    Conversion(("kg", "kilograms", "kilos"), ("g", "grams"), 1000, 99),
    Conversion(("t", "tonnes"), ("kg", "kilograms"), 1000, 99),
    Conversion(("l", "litres", "liters"), ("ml", "millilitres", "milliliters"), 1000, 99),
    Conversion(("hours", "h"), ("minutes", "min"), 60, 24),
    Conversion(("minutes", "min"), ("seconds", "s"), 60, 90),
    Conversion(("days",), ("hours", "h"), 24, 14),
    Conversion(("weeks",), ("days",), 7, 30),
    Conversion(("years",), ("months",), 12, 20),
)
FORMS = (
    "Convert {n} {a} to {b}.",
    "How many {b} are {n} {a}?",
    "What is {n} {a} in {b}?",
    "{n} {a} in {b}",
    "{n} {a} to {b}",
    "How many {b} are there in {n} {a}?",
    "Express {n} {a} in {b}.",
    "Change {n} {a} into {b}.",
    "{n} {a} is how many {b}?",
    "{n} {a} = ? {b}",
    "Please convert {n} {a} into {b}.",
    "I have {n} {a}. How many {b} is that?",
    "How much is {n} {a} in {b}?",
    "Give me {n} {a} in {b}.",
    "What's {n} {a} in {b}?",
    "Turn {n} {a} into {b}.",
)


def units(rng: random.Random) -> Episode:
    conversion = rng.choice(CONVERSIONS)
    amount = quantity(rng, conversion)
    in_small = amount * conversion.factor
    down = rng.random() < 0.55
    before, after = (amount, in_small) if down else (in_small, amount)
    source, target = (conversion.large, conversion.small) if down else (conversion.small, conversion.large)
    left, right = measure(before, source[0]), measure(after, target[0])
    sign = "x" if down else "/"
    exchange = Exchange(
        user=phrase(rng, FORMS, n=plain(before), a=named(before, rng.choice(source)), b=rng.choice(target)),
        answer=f"{left} = {right}",
        intent=f"I convert {left} to {target[0]}.",
        steps=f"{measure(Decimal(1), conversion.large[0])} is {conversion.factor} {conversion.small[0]}.\n"
        f"{work(before, conversion.factor, down=down)}{plain(before)} {sign} {conversion.factor} = {plain(after)}.",
    )
    return single("units", exchange)


def quantity(rng: random.Random, conversion: Conversion) -> Decimal:
    whole = Decimal(rng.randint(1, conversion.most))
    if conversion.factor % 10 or conversion.factor == 60 or rng.random() < 0.4:
        return whole
    digits = rng.choice((1, 1, 2)) if conversion.factor >= 100 else 1
    return Decimal(rng.randint(1, conversion.most * 10**digits)) / Decimal(10) ** digits


def measure(amount: Decimal, unit: str) -> str:
    return f"{plain(amount)} {named(amount, unit)}"


def named(amount: Decimal, unit: str) -> str:
    return unit[:-1] if amount == 1 and len(unit) > 2 and unit.endswith("s") else unit


def plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def work(amount: Decimal, factor: int, *, down: bool) -> str:
    """The part products, where the factor is not a shift of the decimal point."""
    count = int(amount)
    if not down:
        # The other divisions are short enough to know by heart.
        return f"{count // 10} / 6 = {count // 60}.\n" if factor == 60 else ""
    if factor == 60:
        tens, ones = count // 10 * 10, count % 10
        split = f"{tens} x 6 = {tens * 6}, {ones} x 6 = {ones * 6}, " if tens and ones else ""
        return f"{split}{count} x 6 = {count * 6}.\n"
    if factor in (24, 12):
        tens, ones = factor // 10 * 10, factor % 10
        return f"{count} x {tens} = {count * tens}, {count} x {ones} = {count * ones}.\n"
    return ""
