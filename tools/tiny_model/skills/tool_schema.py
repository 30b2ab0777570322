"""How a dialogue declares a function: its words, and the many shapes that libraries give to one and the same schema."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tools.tiny_model.episode import Call

Arguments = dict[str, object]
Draw = Callable[[random.Random], object]
Outcome = Callable[[random.Random, Arguments], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Parameter:
    names: tuple[str, ...]
    """What a schema may call it; the first one is also the slot in the templates."""
    kind: str
    meaning: str
    """Alternatives are divided by ` | `."""
    draw: Draw
    required: bool = True
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """One thing a tool can do."""

    names: tuple[str, ...]
    meanings: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    asks: tuple[str, ...]
    """Requests with slots; a template without the slot of an optional parameter leaves that one out of the call."""
    goal: str
    """What it is for, as reasoning puts it."""
    outcome: Outcome
    """(what the tool returns, what the model makes of it) for the arguments."""
    kin: tuple[str, ...] = ()
    """Wishes that it could serve; functions that share one are never offered together. Without any: its goal."""
    several: bool = False
    """A request may name two or three values at once ("in Paris and London"): one call for each."""

    def rivals(self, other: Function) -> bool:
        return bool(set(self.kin or (self.goal,)) & set(other.kin or (other.goal,)))


def bare(function: Function) -> Function:
    """Without its optional parameters, and without the requests that name them."""
    dropped = ["{" + parameter.names[0] + "}" for parameter in function.parameters if not parameter.required]
    asks = tuple(ask for ask in function.asks if not any(slot in ask for slot in dropped))
    return replace(function, parameters=tuple(p for p in function.parameters if p.required), asks=asks)


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to write a schema, the same for all tools of a dialogue."""

    casing: str = "snake"
    described: bool = True
    """Parameters have descriptions."""
    explained: bool = True
    """The function has one."""
    documented: bool = False
    """Its description ends with the parameters, as docstrings do."""
    empty: bool = False
    """A function that is not explained has an empty description instead of none."""
    described_last: bool = False
    titled: bool = False
    type_first: bool = True
    object_first: bool = True
    required: str = "usual"
    """`absent`: nothing is said; `all`: also what has choices, where the first one is what a request means."""
    closed: bool = False
    lenient: bool = False
    """Says that arguments are not constrained, as some clients do."""
    turned: bool = False
    """Choices in the opposite order."""


PLAIN = Shape()


def draw_shape(rng: random.Random) -> Shape:
    if rng.random() < 0.3:
        return PLAIN
    described, documented = rng.choice(((True, False), (True, False), (False, False), (False, True)))
    return Shape(
        casing=rng.choices(("snake", "camel", "pascal", "kebab"), (12, 4, 1, 1))[0],
        described=described,
        explained=documented or rng.random() < 0.8,
        documented=documented,
        empty=rng.random() < 0.4,
        described_last=rng.random() < 0.08,
        titled=rng.random() < 0.2,
        type_first=rng.random() < 0.7,
        object_first=rng.random() < 0.7,
        required=rng.choices(("usual", "absent", "all"), (7, 1, 2))[0],
        closed=rng.random() < 0.3,
        lenient=rng.random() < 0.2,
        turned=rng.random() < 0.3,
    )


@dataclass(frozen=True, slots=True)
class Tool:
    """A function as one dialogue declares it."""

    function: Function
    name: str
    meaning: str
    keys: tuple[str, ...]
    """The declared name of each parameter, in the order of the function's parameters."""
    meanings: tuple[str, ...]
    shape: Shape = field(default=PLAIN)

    def schema(self) -> dict[str, object]:
        shape = self.shape
        named = list(zip(self.keys, self.function.parameters, self.meanings, strict=True))
        properties = {key: self._property(key, parameter, meaning) for key, parameter, meaning in named}
        parts: dict[str, object] = {"type": "object", "properties": properties}
        if shape.required != "absent":
            parts["required"] = [key for key, p, _ in named if p.required or (self._all_required and p.choices)]
        if not shape.object_first:
            parts["type"] = parts.pop("type")
        if shape.closed:
            parts["additionalProperties"] = False
        if shape.titled:
            parts["title"] = f"{self.name}_args"
        function: dict[str, object] = {"name": self.name}
        if shape.explained or shape.empty:
            function["description"] = self._description() if shape.explained else ""
        function["parameters"] = parts
        if shape.described_last and "description" in function:
            function["description"] = function.pop("description")
        return {"type": "function", "function": function | ({"strict": False} if shape.lenient else {})}

    def _property(self, key: str, parameter: Parameter, meaning: str) -> dict[str, object]:
        shape = self.shape
        described: dict[str, object] = {"type": parameter.kind}
        if shape.titled:
            described = {"title": key.replace("_", " ").title()} | described
        if shape.described:
            described = (
                described | {"description": meaning} if shape.type_first else {"description": meaning} | described
            )
        if parameter.choices:
            described["enum"] = list(self._choices(parameter))
        return described

    def _description(self) -> str:
        if not self.shape.documented or not self.keys:
            return self.meaning
        lines = (f"    {key}: {meaning}" for key, meaning in zip(self.keys, self.meanings, strict=True))
        return "\n".join((self.meaning, "", "Args:", *lines))

    def _choices(self, parameter: Parameter) -> tuple[str, ...]:
        return parameter.choices[::-1] if self.shape.turned else parameter.choices

    @property
    def _all_required(self) -> bool:
        """Only where the first choice is a value for everything that a request can leave open."""
        return self.shape.required == "all" and all(p.required or p.choices for p in self.function.parameters)

    def filled(self, arguments: Arguments) -> Arguments:
        """With the values that the schema asks for and the request leaves open, in the order of the declaration."""
        parameters = self.function.parameters
        open_ones = {p.names[0]: self._choices(p)[0] for p in parameters if self._all_required and p.choices}
        known = open_ones | arguments
        return {p.names[0]: known[p.names[0]] for p in parameters if p.names[0] in known}

    def call(self, arguments: Arguments) -> Call:
        given = self.filled(arguments)
        named = zip(self.keys, self.function.parameters, strict=True)
        return Call(self.name, tuple((key, given[p.names[0]]) for key, p in named if p.names[0] in given))


def declare(rng: random.Random, function: Function, shape: Shape = PLAIN) -> Tool:
    keys = tuple(cased(rng.choice(parameter.names), shape.casing) for parameter in function.parameters)
    meanings = tuple(rng.choice(parameter.meaning.split(" | ")) for parameter in function.parameters)
    name = cased(rng.choice(function.names), shape.casing, function=True)
    return Tool(function, name, rng.choice(function.meanings), keys, meanings, shape)


def cased(name: str, casing: str, *, function: bool = False) -> str:
    """Only functions are written in Pascal case or with hyphens."""
    head, *rest = re.split("_", name)
    if casing == "camel":
        return head + "".join(part.capitalize() for part in rest)
    if casing == "pascal" and function:
        return "".join(part.capitalize() for part in (head, *rest))
    return name.replace("_", "-") if casing == "kebab" and function else name
