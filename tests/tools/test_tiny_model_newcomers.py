"""The hand-written first requests: calls fit their tools, grading is strict, and training never sees them."""

from __future__ import annotations

import random

from tools.tiny_model.episode import Episode, Exchange
from tools.tiny_model.generate import training_items
from tools.tiny_model.newcomers import Request, is_newcomers, requests
from tools.tiny_model.skills.tool_catalog import WEATHER
from tools.tiny_model.skills.tool_inventor import invent
from tools.tiny_model.skills.tool_schema import Shape, declare
from tools.tiny_model.skills.tools_wide import several, wide

KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float)}


def parameters(request: Request, name: str) -> dict[str, dict[str, object]]:
    (tool,) = (tool["function"] for tool in request.tools if tool["function"]["name"] == name)
    properties: dict[str, dict[str, object]] = tool["parameters"]["properties"]
    return properties


def test_there_are_enough_and_each_has_one_kind_of_answer() -> None:
    assert 50 <= len(requests()) <= 80
    assert len({(request.ask, str(request.tools), request.returned) for request in requests()}) == len(requests())
    for request in requests():
        assert sum(map(bool, (request.calls, request.says, request.holds))) == 1
        assert bool(request.called) == bool(request.holds)


def test_the_right_calls_fit_the_declared_tools() -> None:
    for request in requests():
        for name, arguments in [call for calls in request.calls for call in calls]:
            declared = parameters(request, name)
            for key, given in arguments.items():
                assert isinstance(given, KINDS[str(declared[key]["type"])])


def test_grading_takes_no_call_for_an_answer_and_no_half_for_a_whole() -> None:
    request = next(request for request in requests() if request.calls and len(request.calls[0]) == 2)
    (calls,) = request.calls
    assert request.right("", calls)
    assert not request.right("", calls[:1])
    assert not request.right("", calls[::-1])
    said = next(request for request in requests() if request.says)
    assert said.right(said.says[0], [])
    assert not said.right(said.says[0], calls)
    assert not said.right("", [])


def test_a_request_is_a_newcomers_whatever_its_case_and_its_end() -> None:
    assert is_newcomers("what is the weather in paris")
    assert not is_newcomers("What is the weather in Paris and Rome?")
    assert not is_newcomers("Hello!")
    for skill in ("tools", "arithmetic"):
        assert Episode(skill, (Exchange("What is the weather in Paris?", "", "", ""),)).held_out


def test_training_says_none_of_them() -> None:
    said = (message for item in training_items(21, 3000) for message in item.messages if message["role"] == "user")
    assert not [text for text in said if is_newcomers(str(text["content"]))]


def test_tools_differ_from_dialogue_to_dialogue() -> None:
    rng = random.Random(4)
    names = {tool["function"]["name"] for _ in range(400) for tool in wide(rng).tools}  # type: ignore[index]
    assert len(names) > 300


def test_invented_functions_are_called_with_all_they_want() -> None:
    rng = random.Random(5)
    for _ in range(300):
        invented = invent(rng)
        for ask in invented.asks:
            assert all("{" + parameter.names[0] + "}" in ask for parameter in invented.parameters)


def test_what_a_schema_asks_for_and_a_request_leaves_open_is_the_first_choice() -> None:
    for turned, unit in ((False, "celsius"), (True, "fahrenheit")):
        tool = declare(random.Random(1), WEATHER, Shape(required="all", turned=turned))
        assert tool.call({"location": "Oslo"}).arguments[1][1] == unit
        usual = declare(random.Random(1), WEATHER, Shape(turned=turned))
        assert len(usual.call({"location": "Oslo"}).arguments) == 1


def test_several_values_are_several_calls() -> None:
    rng = random.Random(6)
    user, calls = several(rng, declare(rng, WEATHER))
    assert 2 <= len(calls) <= 3
    assert all(str(value) in user for _, arguments in calls for value in arguments.values())
