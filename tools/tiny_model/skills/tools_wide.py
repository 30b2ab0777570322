"""Calls of tools that nobody told the model about: other names, schemas, values and results than those of the bank."""

from __future__ import annotations

import random

from tools.tiny_model.episode import Episode, Exchange
from tools.tiny_model.skills.arithmetic import arithmetic
from tools.tiny_model.skills.capitals import capitals
from tools.tiny_model.skills.identity import identity
from tools.tiny_model.skills.smalltalk import smalltalk
from tools.tiny_model.skills.smalltalk_texts import BEYOND, NO_CLOCK
from tools.tiny_model.skills.tool_bank import CALCULATOR, FUNCTIONS
from tools.tiny_model.skills.tool_catalog import FIRST
from tools.tiny_model.skills.tool_catalog_more import MORE
from tools.tiny_model.skills.tool_inventor import invent, sibling
from tools.tiny_model.skills.tool_schema import Arguments, Function, Tool, bare, declare, draw_shape
from tools.tiny_model.skills.tools import (
    BOTH,
    NONE_FITS,
    calling,
    complete,
    dialogue,
    earlier,
    free_of_split,
    request,
)
from tools.tiny_model.wording import loosen

WHICH = (
    "What tools do you have?", "Which tools do you have?", "What tools can you use?", "Which functions can you call?",
    "List your tools.", "What are your tools?", "Do you have tools?", "Show me your tools.", "Which tools can you use?",
)  # fmt: skip
JOINED = ("{} and {}", "{}, {} and {}", "{}, {}, and {}", "{} and {} and {}")
OFTEN = (*FIRST, *(bare(each) for each in FIRST if not all(parameter.required for parameter in each.parameters)))
BANK = (*FUNCTIONS, *(bare(each) for each in FUNCTIONS if not all(parameter.required for parameter in each.parameters)))
ENDS = (".", ".", ";", ",", "\n")
# How often a dialogue has 0, 1, ... tools beside the needed ones, and how often one of them is nearly the same.
OTHERS = (6, 5, 3, 2, 1, 1)
NEAR_SHARE = 0.25
Made = tuple[str, list[tuple[Tool, Arguments]]]


def wide(rng: random.Random) -> Episode:
    """One call, or as many as the request asks for."""
    tools, (user, calls) = wish(rng)
    return dialogue("tools wide", tools, [*earlier(rng, tools), calling(user, calls, tools)])


def wide_results(rng: random.Random) -> Episode:
    tools, (user, calls) = wish(rng)
    if len(calls) == 1:
        turns = complete(rng, calls[0][0], tools)
    else:
        returned = [tool.function.outcome(rng, tool.filled(arguments)) for tool, arguments in calls]
        while Episode("tools wide", (Exchange(user, "", "", ""),)).held_out:
            tools, (user, calls) = wish(rng, least=2)
            returned = [tool.function.outcome(rng, tool.filled(arguments)) for tool, arguments in calls]
        names = " and ".join(dict.fromkeys(tool.name for tool, _ in calls))
        turns = [calling(user, calls, tools), told(names, returned)]
    return dialogue("tools wide result", tools, [*earlier(rng, tools), *turns])


def told(names: str, returned: list[tuple[str, str]]) -> Exchange:
    """The answer to several results, a line for each."""
    results, answers = zip(*returned, strict=True)
    intent, steps = f"{names} has answered.", f"I tell the user what {names} returned."
    return Exchange("", "\n".join(answers), intent, steps, results=results)


def wide_none(rng: random.Random) -> Episode:
    """Small talk before tools, questions about them, and wishes that they cannot fulfil."""
    draw = rng.random()
    if draw < 0.35:
        while (missing := function(rng)).rivals(CALCULATOR):
            pass
        tools = offer(rng, [], without=missing)
        user, _ = request(rng, missing)
        steps = f"This needs a tool for {missing.goal}. I have {named(tools)}. None fits."
        exchange = Exchange(user, NONE_FITS, f"The user wants {missing.goal}.", steps)
    elif draw < 0.5:
        tools = offer(rng, [])
        answer = f"I can call {named(tools)}."
        exchange = Exchange(
            loosen(rng, rng.choice(WHICH)), answer, "The user asks about my tools.", f"I have {named(tools)}."
        )
    else:
        tools = offer(rng, [], without=CALCULATOR)
        maker = rng.choice((identity, identity, capitals, smalltalk, arithmetic))
        turn = free_of_split(rng, maker)
        while turn.answer in (BEYOND, NO_CLOCK):
            turn = free_of_split(rng, maker)
        exchange = Exchange(turn.user, turn.answer, turn.intent, f"No tool is needed.\n{turn.steps}")
    return dialogue("tools wide none", tools, [*earlier(rng, tools), exchange])


def named(tools: list[Tool]) -> str:
    return ", ".join(tool.name for tool in tools)


def function(rng: random.Random) -> Function:
    draw = rng.random()
    if draw < 0.45:
        return rng.choice(OFTEN)
    if draw < 0.7:
        return rng.choice(MORE)
    return invent(rng) if draw < 0.9 else rng.choice(BANK)


def offer(rng: random.Random, needed: list[Function], *, without: Function | None = None) -> list[Tool]:
    """The needed ones first, then others that cannot do the same; mostly few, as first tries have."""
    chosen, barred = list(needed), [*needed, *([without] if without else [])]
    for _ in range(rng.choices(range(6), OTHERS)[0] + (not needed)):
        near = sibling(rng, rng.choice(chosen)) if chosen and rng.random() < NEAR_SHARE else None
        other = near or function(rng)
        if not any(other.rivals(one) for one in barred):
            chosen.append(other)
            barred.append(other)
    if not chosen:
        return offer(rng, needed, without=without)
    shape = draw_shape(rng)
    tools = [declare(rng, each, shape) for each in chosen]
    return tools if len({tool.name for tool in tools}) == len(tools) else offer(rng, needed, without=without)


def wish(rng: random.Random, *, least: int = 1) -> tuple[list[Tool], Made]:
    """The tools in the order of their declaration, and a request with its calls."""
    draw = rng.random()
    if draw < 0.75 and least == 1:
        tools = offer(rng, [function(rng)])
        made: Made = (lambda asked: (asked[0], [(tools[0], asked[1])]))(request(rng, tools[0].function))
    elif draw < 0.9:
        tools = offer(rng, [rng.choice([each for each in (*OFTEN, *OFTEN, *MORE) if each.several])])
        made = several(rng, tools[0])
    else:
        tools, made = pair(rng)
    return rng.sample(tools, len(tools)), made


def several(rng: random.Random, tool: Tool) -> Made:
    """`in Paris, Rome and Oslo`: one call for each value."""
    (slot,) = (parameter for parameter in tool.function.parameters if parameter.required)
    form = rng.choice(JOINED)
    values: list[str] = []
    while len(values) < form.count("{}"):
        drawn = str(slot.draw(rng)).split(",")[0]
        if drawn not in values:
            values.append(drawn)
    name = slot.names[0]
    templates = [ask for ask in tool.function.asks if "{" + name + "}" in ask and ask.count("{") == 1]
    template = rng.choice(templates)
    user = loosen(rng, template, polite="\n" not in template).format(**{name: form.format(*values)})
    return user, [(tool, {name: each}) for each in values]


def pair(rng: random.Random) -> tuple[list[Tool], Made]:
    functions = [function(rng), function(rng)]
    while functions[0].rivals(functions[1]):
        functions[1] = function(rng)
    tools = offer(rng, functions)
    (a, first), (b, second) = (request(rng, tool.function) for tool in tools[:2])
    # A wish that ends with an open value needs a mark: nobody could say where "find red shoes read a.txt" is divided.
    ended = a if a[-1] in "?.!" else a + rng.choice(ENDS)
    return tools, (rng.choice(BOTH).format(a=ended, b=b), [(tools[0], first), (tools[1], second)])
