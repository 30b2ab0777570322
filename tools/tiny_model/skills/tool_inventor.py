"""Invents functions: a deed and a thing, often a made-up one. So a schema must be read, and cannot be remembered."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.tiny_model.banks import pairs, words
from tools.tiny_model.skills import open_values as value
from tools.tiny_model.skills.tool_readout import plain_outcome
from tools.tiny_model.skills.tool_schema import Function, Parameter

DEEDS = pairs(
    """
    get: getting; fetch: fetching; find: finding; create: creating; delete: deleting; update: updating; send: sending;
    start: starting; stop: stopping; check: checking; show: showing; open: opening; close: closing; add: adding;
    remove: removing; cancel: cancelling; order: ordering; count: counting; load: loading; save: saving; buy: buying;
    measure: measuring; print: printing; rename: renaming; approve: approving; track: tracking; read: reading
    """
)
THINGS = words(
    """
    order invoice ticket user customer product account balance report task record document booking subscription
    shipment package meeting contact profile device sensor server project issue comment label playlist recipe payment
    refund coupon employee student course grade vehicle route job backup table password budget alarm door robot
    """
)
# (names, kind, values): what an invented function may want beside the thing itself.
WANTS: tuple[tuple[str, str, Callable[[random.Random], object]], ...] = (
    ("id", "string", value.code_name),
    ("name", "string", value.full_name),
    ("title", "string", value.topic),
    ("date", "string", value.date),
    ("city", "string", value.bare_place),
    ("email", "string", value.email),
    ("amount", "number", value.decimal),
    ("count", "integer", value.small),
    ("quantity", "integer", value.whole),
    ("note", "string", value.saying),
    ("status", "string", value.any_word),
    ("color", "string", value.any_word),
    ("url", "string", value.url),
    ("code", "string", value.symbol),
    ("reason", "string", value.topic),
    ("level", "integer", value.small),
)


def invent(rng: random.Random) -> Function:
    thing = value.made_up(rng) if rng.random() < 0.35 else rng.choice(THINGS)
    if rng.random() < 0.25:
        thing = f"{value.any_word(rng)} {thing}"
    return inventing(rng, rng.choice(DEEDS), thing)


def sibling(rng: random.Random, function: Function) -> Function | None:
    """Another deed for the thing of an invented function, or its deed for another thing: half a name decides nothing.

    None for functions of a catalog, whose requests do not say the deed.
    """
    doing, _, thing = function.goal.partition(" the ")
    same = [pair for pair in DEEDS if pair[1] == doing and function.names[0].startswith(f"{pair[0]}_")]
    if not same:
        return None
    return (
        inventing(rng, same[0], rng.choice(THINGS)) if rng.random() < 0.5 else inventing(rng, rng.choice(DEEDS), thing)
    )


def inventing(rng: random.Random, deed_and_doing: tuple[str, str], thing: str) -> Function:
    deed, doing = deed_and_doing
    tail = thing.lower().replace(" ", "_")
    parameters = tuple(invented(rng, tail, *want) for want in rng.sample(WANTS, rng.choice((0, 1, 1, 1, 2, 2, 3))))
    meanings = (
        f"{deed.capitalize()} a {thing}",
        f"{deed.capitalize()} the {thing}.",
        f"Use this for {doing} a {thing}",
    )
    names = (f"{deed}_{tail}", f"{deed}_{tail}", f"{tail}_{deed}")
    asks = requests(rng, deed, thing, parameters)
    return Function(names, meanings, parameters, asks, f"{doing} the {thing}", plain_outcome)


def invented(
    rng: random.Random, thing: str, name: str, kind: str, draw: Callable[[random.Random], object]
) -> Parameter:
    names = (f"{thing}_{name}" if rng.random() < 0.25 else value.made_up(rng) if rng.random() < 0.15 else name,)
    return Parameter(names, kind, f"The {name} | {name.capitalize()} of the {thing}", draw)


def requests(rng: random.Random, deed: str, thing: str, parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
    """One wording: a function is invented for one dialogue."""
    plain = f"{deed} the {thing}"
    start = rng.choice((plain, plain, f"please {plain}", f"can you {plain}", f"I want to {plain}", f"{deed} a {thing}"))
    start = start[0].upper() + start[1:]
    slots = [(p.names[0], "{" + p.names[0] + "}") for p in parameters]
    if not slots:
        return (f"{start}.", f"{start}")
    if len(slots) == 1 and rng.random() < 0.6:
        _, slot = slots[0]
        return (f"{start} {slot}", f"{start} {rng.choice(('for', 'of', 'with', 'called'))} {slot}")
    said = [name.replace("_", " ") for name, _ in slots]
    form = rng.choice(("{} {}", "{}: {}", "{} = {}"))
    parts = [form.format(word, slot) for word, (_, slot) in zip(said, slots, strict=True)]
    if rng.random() < 0.3:
        rng.shuffle(parts)
    joined = (
        ", ".join(parts)
        if rng.random() < 0.5
        else " and ".join((", ".join(parts[:-1]), parts[-1])).removeprefix(" and ")
    )
    return (f"{start} with {joined}", f"{start}, {joined}")
