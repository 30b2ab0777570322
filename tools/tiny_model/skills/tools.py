"""Calling functions: choosing one, two at once, using what it returned, and doing without when none fits."""

from __future__ import annotations

import json
import random
from string import Formatter

from tools.tiny_model.episode import Call, Episode, Exchange
from tools.tiny_model.skills.arithmetic import arithmetic
from tools.tiny_model.skills.capitals import capitals
from tools.tiny_model.skills.identity import identity
from tools.tiny_model.skills.lists import lists
from tools.tiny_model.skills.spelling import spelling
from tools.tiny_model.skills.tool_bank import CALCULATOR, FUNCTIONS
from tools.tiny_model.skills.tool_schema import Arguments, Function, Tool, declare, draw_shape
from tools.tiny_model.skills.units import units
from tools.tiny_model.wording import loosen

NONE_FITS = "I have no tool for that."
BOTH = ("{a} And {b}", "{a} Also: {b}", "{a} Then: {b}", "First: {a} Second: {b}", "{a} {b}")


def one_call(rng: random.Random) -> Episode:
    (used,), tools = offered(rng, rng.sample(FUNCTIONS, 1))
    user, arguments = request(rng, used.function)
    return dialogue("tools", tools, [*earlier(rng, tools), calling(user, [(used, arguments)], tools)])


def two_calls(rng: random.Random) -> Episode:
    functions = rng.sample(FUNCTIONS, 2) if rng.random() < 0.5 else [rng.choice(FUNCTIONS)] * 2
    needed, tools = offered(rng, functions)
    pair = [tool for function in functions for tool in needed if tool.function is function]
    (a, first), (b, second) = (request(rng, tool.function) for tool in pair)
    if first == second and pair[0] is pair[1]:
        return two_calls(rng)
    text = rng.choice(BOTH).format(a=a, b=b)
    calls = list(zip(pair, (first, second), strict=True))
    return dialogue("tools two", tools, [*earlier(rng, tools), calling(text, calls, tools)])


def results(rng: random.Random) -> Episode:
    (used,), tools = offered(rng, rng.sample(FUNCTIONS, 1))
    return dialogue("tools result", tools, [*earlier(rng, tools), *complete(rng, used, tools)])


def none_fits(rng: random.Random) -> Episode:
    """Something another skill answers, or a wish for a function that this dialogue does not have."""
    if rng.random() < 0.5:
        maker = rng.choice((capitals, identity, units, lists, spelling, arithmetic))
        _, tools = offered(rng, [], without=CALCULATOR)
        turn = free_of_split(rng, maker)
        steps = f"No tool is needed.\n{turn.steps}"
        exchange = Exchange(turn.user, turn.answer, turn.intent, steps)
    else:
        missing = rng.choice([function for function in FUNCTIONS if function is not CALCULATOR])
        _, tools = offered(rng, [], without=missing)
        user, _ = request(rng, missing)
        names = ", ".join(tool.name for tool in tools)
        steps = f"This needs a tool for {missing.goal}. I have {names}. None fits."
        exchange = Exchange(user, NONE_FITS, f"The user wants {missing.goal}.", steps)
    return dialogue("tools none", tools, [*earlier(rng, tools), exchange])


def offered(
    rng: random.Random, needed: list[Function], *, without: Function | None = None
) -> tuple[list[Tool], list[Tool]]:
    """The needed ones, and all in the order of the declaration. Never two for the same thing."""
    distinct = list(dict.fromkeys(needed))
    others = [function for function in FUNCTIONS if function not in distinct and function is not without]
    more = rng.sample(others, rng.choice((0, 1, 1, 2, 3, 4)) if distinct else rng.choice((1, 1, 2, 3)))
    shape = draw_shape(rng)
    tools = [declare(rng, function, shape) for function in (*distinct, *more)]
    return tools[: len(distinct)], rng.sample(tools, len(tools))


def trained_request(rng: random.Random, function: Function) -> tuple[str, Arguments]:
    """For turns that are not graded: never one that is held out as a dialogue of its own."""
    while True:
        user, arguments = request(rng, function)
        if not Episode("tools", (Exchange(user, "", "", ""),)).held_out:
            return user, arguments


def request(rng: random.Random, function: Function) -> tuple[str, Arguments]:
    template = rng.choice(function.asks)
    slots = {name for _, name, _, _ in Formatter().parse(template) if name}
    arguments = {p.names[0]: p.draw(rng) for p in function.parameters if p.names[0] in slots}
    shown = {name: shown_value(value) for name, value in arguments.items()}
    for name in (p.names[0] for p in function.parameters if p.choices and p.names[0] in slots):
        shown[name] = shown[name].capitalize() if rng.random() < 0.3 else shown[name]
    return loosen(rng, template, polite="\n" not in template).format(**shown), arguments


def shown_value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def calling(user: str, calls: list[tuple[Tool, Arguments]], tools: list[Tool]) -> Exchange:
    made = tuple(tool.call(arguments) for tool, arguments in calls)
    goals = " and ".join(dict.fromkeys(tool.function.goal for tool, _ in calls))
    steps = "\n".join(
        f"{call.name} is for {tool.function.goal}: {brief(call)}" for call, (tool, _) in zip(made, calls, strict=True)
    )
    if len(tools) > len(calls):
        steps = f"Tools: {', '.join(tool.name for tool in tools)}.\n{steps}"
    return Exchange(user, "", f"The user wants {goals}.", steps, calls=made)


def brief(call: Call) -> str:
    """Arguments in one line; long ones are only named."""
    parts = [f"{key} {plain(value)}" for key, value in call.arguments]
    return f"{', '.join(parts) or 'no arguments'}."


def plain(value: object) -> str:
    if isinstance(value, str):
        return "as given" if "\n" in value or len(value) > 24 else value
    return json.dumps(value)


def complete(rng: random.Random, tool: Tool, tools: list[Tool]) -> list[Exchange]:
    """A request with its call, what the tool returned, and the answer."""
    user, arguments = trained_request(rng, tool.function)
    returned, answer = tool.function.outcome(rng, tool.filled(arguments))
    after = Exchange("", answer, f"{tool.name} has answered.", f"I tell the user what {tool.name} returned.",
                     results=(returned,))  # fmt: skip
    return [calling(user, [(tool, arguments)], tools), after]


def earlier(rng: random.Random, tools: list[Tool]) -> list[Exchange]:
    if rng.random() < 0.7:
        return []
    if rng.random() < 0.6:
        return complete(rng, rng.choice(tools), tools)
    return [free_of_split(rng, rng.choice((capitals, identity, units)))]


def free_of_split(rng: random.Random, maker: object) -> Exchange:
    assert callable(maker)
    while (episode := maker(rng)).held_out:
        pass
    exchange = episode.exchanges[0]
    assert isinstance(exchange, Exchange)
    return exchange


def dialogue(skill: str, tools: list[Tool], turns: list[Exchange]) -> Episode:
    # What came before does not make a held-out request another one, but what a tool returned does.
    key = None if turns[-1].results else alone(turns[-1].user)
    return Episode(skill, tuple(turns), split_key=key, tools=tuple(tool.schema() for tool in tools))


def alone(user: str) -> str:
    """The key of a dialogue that has only this turn."""
    return f"\x1f{user}"
