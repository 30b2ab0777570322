"""Sorting, reversing and picking the extreme of short lists of numbers or words."""

from __future__ import annotations

import random

from tools.tiny_model.banks import UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import listed, phrase

ASCENDING = (
    "Sort these numbers from smallest to largest: {items}",
    "Sort in ascending order: {items}",
    "sort {items}",
    "Sort: {items}",
    "Put these numbers in order: {items}",
    "Order these from low to high: {items}",
    "Arrange in increasing order: {items}",
    "Sort the numbers {items}",
    "Please sort {items}",
    "Can you sort these numbers? {items}",
    "Sort this list: {items}",
    "Sort ascending: {items}",
)
DESCENDING = (
    "Sort these numbers from largest to smallest: {items}",
    "Sort in descending order: {items}",
    "Order these from high to low: {items}",
    "Arrange in decreasing order: {items}",
    "Sort descending: {items}",
    "Put these numbers in order, largest first: {items}",
    "Sort the list with the biggest first: {items}",
)
ALPHABETICAL = (
    "Sort these words alphabetically: {items}",
    "Sort in alphabetical order: {items}",
    "sort {items}",
    "Put these words in alphabetical order: {items}",
    "Alphabetize: {items}",
    "Arrange from A to Z: {items}",
    "Order these words from a to z: {items}",
    "Sort the words {items}",
    "Please sort alphabetically: {items}",
    "Can you put these in alphabetical order? {items}",
)
REVERSED = (
    "Reverse this list: {items}",
    "Reverse the order: {items}",
    "Write this list backwards: {items}",
    "Give me the list in reverse order: {items}",
    "Reverse: {items}",
    "Put these in reverse order: {items}",
    "List these from last to first: {items}",
    "Flip the order of {items}",
    "Can you reverse this list? {items}",
)
LARGEST = (
    "Which number is the largest? {items}",
    "What is the biggest of {items}",
    "Find the maximum: {items}",
    "Largest number: {items}",
    "Pick the largest: {items}",
)
SMALLEST = (
    "Which number is the smallest? {items}",
    "What is the lowest of {items}",
    "Find the minimum: {items}",
    "Smallest number: {items}",
    "Pick the smallest: {items}",
)
SEPARATORS = (", ", ", ", ", ", " ", ",", "; ")
# The longest lists that are graded, and those that are trained on: what is asked lies inside what was seen.
GRADED_NUMBERS, GRADED_WORDS = 7, 6
TRAINED_NUMBERS, TRAINED_WORDS = 9, 8
BEYOND_SHARE = 0.15


def lists(rng: random.Random) -> Episode:
    beyond = rng.random() < BEYOND_SHARE
    return single("lists", about(rng, beyond=beyond), graded=not beyond)


def about(rng: random.Random, *, beyond: bool) -> Exchange:
    draw = rng.random()
    if draw < 0.12:
        return extreme(rng, numbers(rng, beyond=beyond))
    if draw < 0.36:
        return reverse(rng, numbers(rng, beyond=beyond) if rng.random() < 0.4 else words(rng, beyond=beyond))
    if draw < 0.66:
        return sort(rng, numbers(rng, beyond=beyond), "Smallest", ASCENDING)
    if draw < 0.80:
        return sort(rng, numbers(rng, beyond=beyond), "Largest", DESCENDING)
    return sort(rng, words(rng, beyond=beyond), "First", ALPHABETICAL)


def numbers(rng: random.Random, *, beyond: bool = False) -> list[str]:
    top = rng.choice((10, 100, 100, 1000))
    size = rng.randint(GRADED_NUMBERS + 1, TRAINED_NUMBERS) if beyond else rng.randint(3, GRADED_NUMBERS)
    return [str(value) for value in rng.sample(range(top), size)]


def words(rng: random.Random, *, beyond: bool = False) -> list[str]:
    size = rng.randint(GRADED_WORDS + 1, TRAINED_WORDS) if beyond else rng.randint(3, GRADED_WORDS)
    return rng.sample(UNIQUE_WORDS, size)


def sort(rng: random.Random, items: list[str], label: str, forms: tuple[str, ...]) -> Exchange:
    ordered = sorted(items) if label == "First" else sorted(items, key=int, reverse=label == "Largest")
    left, lines = list(items), []
    for item in ordered[:-1]:
        left.remove(item)
        lines.append(f"{label} {item}, left {listed(left)}.")
    return Exchange(
        user=phrase(rng, forms, items=rng.choice(SEPARATORS).join(items)),
        answer=listed(ordered),
        intent=f"I sort {listed(items)}.",
        steps="\n".join((*lines, f"{label} {ordered[-1]}, none left.")),
    )


def reverse(rng: random.Random, items: list[str]) -> Exchange:
    return Exchange(
        user=phrase(rng, REVERSED, items=rng.choice(SEPARATORS).join(items)),
        answer=listed(items[::-1]),
        intent=f"I reverse {listed(items)}.",
        steps=f"There are {len(items)} items. The last is {items[-1]}, the first is {items[0]}.",
    )


def extreme(rng: random.Random, items: list[str]) -> Exchange:
    largest = rng.random() < 0.5
    best = (max if largest else min)(items, key=int)
    label = "largest" if largest else "smallest"
    return Exchange(
        user=phrase(rng, LARGEST if largest else SMALLEST, items=rng.choice(SEPARATORS[:3]).join(items)),
        answer=best,
        intent=f"I look for the {label} of {listed(items)}.",
        steps=f"The {label} is {best}.",
    )
