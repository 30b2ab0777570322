"""Functions, namespaces and the choice among them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]
SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}}


def function(name: str = "look", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name} | fields


def space(name: str, *members: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": name, "tools": list(members)} | fields


def effective(connect: Connect, **fields: Any) -> list[str]:
    connection = connect()
    connection.create(**fields)
    return [tool.name for tool in connection.service.requests[-1].tools]


@pytest.mark.contract("RESP-13", "RESP-42", "RESP-43", "RESP-44", "CHAT-40")
def test_definitions_reach_the_prompt_in_their_order(connect: Connect) -> None:
    connection = connect()
    direct = {"parameters": SCHEMA, "description": "Looks.", "name": "look", "type": "function", "strict": False}
    bare = {"name": "look", "description": None, "allowed_callers": ["direct"], "defer_loading": False}
    connection.create(tools=[direct, space("maps", bare)])
    first, second = connection.service.requests[-1].tools
    assert json.dumps(first.definition) == json.dumps(
        {"type": "function", "function": {"parameters": SCHEMA, "description": "Looks.", "name": "look"}}
    )
    assert (first.name, first.parameters) == ("look", SCHEMA)
    empty = {"type": "object", "properties": {}}
    assert (second.name, second.parameters) == ("maps__look", empty)
    assert second.definition == {"type": "function", "function": {"name": "maps__look", "parameters": empty}}


@pytest.mark.contract("RESP-44")
def test_a_name_may_stand_in_several_namespaces(connect: Connect) -> None:
    connection = connect(EventScript(pieces=(), calls=(("a__read", {"p": 1}), ("b__read", {"p": 2}), ("read", {}))))
    tools = [space("a", function("read")), space("b", function("read")), function("read")]
    for answer in (connection.create(tools=tools), connection.stream(tools=tools)[-1][1]["response"]):
        assert [(call.get("namespace"), call["name"]) for call in answer["output"]] == [
            ("a", "read"),
            ("b", "read"),
            (None, "read"),
        ]


@pytest.mark.contract("RESP-14", "RESP-46")
def test_choices(connect: Connect) -> None:
    tools = [function("a"), space("n", function("a"), function("b")), function("c")]
    assert effective(connect, tools=tools) == ["a", "n__a", "n__b", "c"]
    assert effective(connect, tools=tools, tool_choice="none") == []
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [function("c"), function("a", namespace="n"), function("a")],
    }
    assert effective(connect, tools=tools, tool_choice=allowed) == ["a", "n__a", "c"]
    assert effective(connect, tools=tools, tool_choice=allowed | {"tools": []}) == []


@pytest.mark.contract("RESP-15")
def test_parallel_calls(connect: Connect) -> None:
    error = connect().refusal(tools=[function()], parallel_tool_calls=False)
    assert (error["param"], error["code"]) == ("parallel_tool_calls", "parallel_tool_calls_not_supported")
    for fields in ({}, {"tools": [function()], "tool_choice": "none"}):
        assert connect().create(parallel_tool_calls=False, **fields)["parallel_tool_calls"] is False


@pytest.mark.contract("RESP-14", "RESP-42", "RESP-47", "RESP-74", "RESP-77", "IMPL-17")
@pytest.mark.parametrize(
    ("tools", "param", "code"),
    [
        *(
            ([{"type": kind}], "tools[0].type", "tool_type_not_supported")
            for kind in ("web_search", "file_search", "mcp", "custom", "local_shell", "x", 5, None)
        ),
        ([{}], "tools[0].type", "tool_type_not_supported"),
        (["x"], "tools[0]", "invalid_type"),
        ([function(strict=True)], "tools[0].strict", "strict_tools_not_supported"),
        ([function(defer_loading=True)], "tools[0].defer_loading", "deferred_tools_not_supported"),
        ([function(output_schema={})], "tools[0].output_schema", "tool_output_schema_not_supported"),
        ([function(allowed_callers=["programmatic"])], "tools[0].allowed_callers", "tool_caller_not_supported"),
        ([function(parameters="x")], "tools[0].parameters", "invalid_type"),
        ([function(description=1)], "tools[0].description", "invalid_type"),
        ([function("a b")], "tools[0].name", "invalid_tool_name"),
        ([function("")], "tools[0].name", "invalid_tool_name"),
        ([function("a" * 65)], "tools[0].name", "invalid_tool_name"),
        ([{"type": "function"}], "tools[0].name", "invalid_type"),
        ([function(), function()], "tools[1].name", "duplicate_tool_name"),
        ([space("n", function("a")), function("n__a")], "tools[1].name", "duplicate_tool_name"),
        ([space("n", function("a"), function("a"))], "tools[0].tools[1].name", "duplicate_tool_name"),
        ([space("n" * 32, function("a" * 31))], "tools[0].tools[0].name", "invalid_tool_name"),
        ([space("n.n", function("a"))], "tools[0].tools[0].namespace", "invalid_tool_name"),
        ([space("n", {"type": "custom", "name": "a"})], "tools[0].tools[0].type", "tool_type_not_supported"),
        ([space("n", function("a", strict=True))], "tools[0].tools[0].strict", "strict_tools_not_supported"),
        ([{"type": "namespace", "name": "n"}], "tools[0].tools", "invalid_type"),
    ],
)
def test_definitions_that_are_refused(connect: Connect, tools: Any, param: str, code: str) -> None:
    error = connect().refusal(tools=tools)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.contract("RESP-77")
def test_the_longest_name_that_fits(connect: Connect) -> None:
    assert effective(connect, tools=[space("n" * 31, function("a" * 31))]) == ["n" * 31 + "__" + "a" * 31]


@pytest.mark.contract("RESP-14", "RESP-47", "IMPL-17")
@pytest.mark.parametrize(
    ("choice", "param", "code"),
    [
        ("required", "tool_choice", "tool_choice_not_supported"),
        ("x", "tool_choice", "tool_choice_not_supported"),
        (function(), "tool_choice", "tool_choice_not_supported"),
        ({"type": "web_search"}, "tool_choice", "tool_choice_not_supported"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "tool_choice", "tool_choice_not_supported"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools", "invalid_type"),
        *(
            (
                {"type": "allowed_tools", "mode": "auto", "tools": [selection]},
                "tool_choice.tools[0]",
                "invalid_tool_choice",
            )
            for selection in (
                function("other"),
                function("inner"),
                function("n__inner"),
                function("look", namespace="n"),
                function(name=None),  # type: ignore[arg-type]
                {"type": "mcp"},
                "look",
            )
        ),
    ],
)
def test_choices_that_are_refused(connect: Connect, choice: Any, param: str, code: str) -> None:
    error = connect().refusal(tools=[function(), space("n", function("inner"))], tool_choice=choice)
    assert (error["param"], error["code"]) == (param, code)


class TestCodex:
    """Decision 14, `--compat codex`."""

    OPTIONS = {"compat": frozenset({"codex"})}  # noqa: RUF012
    HOSTED = ({"type": "web_search"}, {"type": "image_generation"}, {"type": "web_search_preview_2025_03_11"})

    @pytest.mark.parametrize("stream", [False, True])
    def test_hosted_tools_are_left_out_and_named(self, connect: Connect, stream: bool) -> None:
        connection = connect(**self.OPTIONS)
        response = connection.post(tools=[*self.HOSTED, function(), self.HOSTED[0]], stream=stream)
        assert (
            response.headers["x-ninfer-dropped-tools"] == "web_search, image_generation, web_search_preview_2025_03_11"
        )
        assert [tool.name for tool in connection.service.requests[-1].tools] == ["look"]
        assert "x-ninfer-dropped-tools" not in connection.post(tools=[function()]).headers

    @pytest.mark.parametrize("kind", ["custom", "local_shell", "brand_new"])
    def test_tools_that_a_client_runs_itself_are_still_refused(self, connect: Connect, kind: str) -> None:
        assert connect(**self.OPTIONS).refusal(tools=[{"type": kind, "name": "x"}])["code"] == "tool_type_not_supported"

    def test_a_forced_hosted_tool_is_refused(self, connect: Connect) -> None:
        error = connect(**self.OPTIONS).refusal(tools=[self.HOSTED[0]], tool_choice={"type": "web_search"})
        assert error["code"] == "tool_choice_not_supported"

    def test_wishes_are_not_refused(self, connect: Connect) -> None:
        connection = connect(**self.OPTIONS)
        bare = {"type": "reasoning", "summary": [], "encrypted_content": None}
        items = [
            {"role": "user", "content": "a"},
            bare,
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
        connection.create(
            input=items,
            tools=[function()],
            parallel_tool_calls=False,
            reasoning={"effort": "low", "summary": "auto"},
            include=["reasoning.encrypted_content"],
            store=False,
            client_metadata={"x": "y"},
        )
        request = connection.service.requests[-1]
        assert [message.text for message in request.messages] == ["a", "b", "c"]
        assert request.messages[1].reasoning is None
        assert connection.refusal(reasoning={"context": "x"})["code"] == "reasoning_option_not_supported"
