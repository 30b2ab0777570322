from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import UNTYPED, DeclaredTools, type_set
from ninfer_models.qwen_hybrid.frontend.tool_calls.values import MAX_JSON_DEPTH, Omitted, convert, without_framing

from ninfer_core.api import ToolDefinition

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
WORDS = ("number", "integer", "boolean", "null", "array", "object")


def definition(name: str, **properties: Any) -> ToolDefinition:
    return ToolDefinition(name=name, parameters={"type": "object", "properties": properties}, definition={})


@pytest.mark.contract("TOOL-18")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("\n", ""),
        ("\r\n", ""),
        ("\n\n", ""),
        ("\n\n\n", "\n"),
        ("\r\n\r\n", ""),
        ("a", "a"),
        ("\na\n", "a"),
        ("\r\na\r\n", "a"),
        ("\n\r\na\n\r\n", "\r\na\n"),
        (" \na\n ", " \na\n "),
        ("\r\r\n", "\r"),
        ("\ra\r", "\ra\r"),
    ],
)
def test_one_newline_on_each_side_is_framing(text: str, value: str) -> None:
    assert without_framing(text) == value


@pytest.mark.contract("TOOL-3")
@given(text=st.text())
def test_a_string_is_never_looked_into(text: str) -> None:
    assert convert(f"\n{text}\n", frozenset(("string",))) == (text.removesuffix("\r"), False)


@pytest.mark.contract("TOOL-5", "TOOL-6")
@given(value=JSON_VALUES, words=st.sets(st.sampled_from(WORDS), min_size=1))
def test_json_keeps_its_value_and_type_whatever_is_declared(value: Any, words: set[str]) -> None:
    converted = convert(f"\n {json.dumps(value, ensure_ascii=False)} \n", frozenset(words))
    assert json.dumps(converted.value) == json.dumps(value)
    assert convert(json.dumps(value), UNTYPED).value == value


@pytest.mark.contract("TOOL-6")
@pytest.mark.parametrize(
    ("word", "admitted", "refused"),
    [
        ("integer", ("1", "-3", "2.0", "1e2"), ("2.5", "true", "null", "[1]", '"1"', "one")),
        ("number", ("1", "2.5", "-1e-3"), ("false", "null", "x")),
        ("boolean", ("true", "FALSE", "True"), ("1", "null", "yes")),
        ("null", ("null",), ("None", "0", "false")),
        ("array", ("[]", "[1]"), ("{}", "1")),
        ("object", ("{}",), ("[]", "null")),
    ],
)
def test_values_that_no_declared_type_admits_are_counted(
    word: str, admitted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    types = frozenset((word,))
    assert [convert(text, types).mismatch for text in admitted] == [False] * len(admitted)
    assert [convert(text, types).mismatch for text in refused] == [True] * len(refused)


@pytest.mark.contract("TOOL-4", "TOOL-7")
def test_an_empty_block_is_omitted_only_where_a_type_is_declared_that_is_no_string() -> None:
    assert convert("\n \r\n", frozenset(("integer", "null"))) == (Omitted, False)
    assert convert("\n\n", UNTYPED) == ("", False)
    assert convert("\n\n", frozenset(("string",))) == ("", False)


def test_depth_is_bounded_by_nesting_and_not_by_brackets_in_text() -> None:
    array = frozenset(("array",))
    flat = json.dumps(["[{" * MAX_JSON_DEPTH, *([] for _ in range(2 * MAX_JSON_DEPTH))])
    assert convert(flat, array).value == json.loads(flat)
    deepest = "[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH
    assert convert(deepest, array).value == json.loads(deepest)
    assert convert(f"[{deepest}]", array) == (f"[{deepest}]", True)


@given(text=st.text(st.sampled_from('[]{}",:0123456789.eE+-\\untrueflasNIiy \n')))
def test_no_text_makes_a_value_that_is_not_strict_json(text: str) -> None:
    for types in (UNTYPED, frozenset(("number",)), frozenset(("array", "object"))):
        value = convert(text, types).value
        if value is not Omitted:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.contract("TOOL-2")
@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": ["null", "string"]}, {"string"}),
        ({"type": "string", "anyOf": [{"type": "integer"}]}, {"string"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
        ({"oneOf": [{"type": "array", "items": {}}, {"type": ["number", "boolean"]}]}, {"array", "number", "boolean"}),
        ({"anyOf": [{"type": "integer"}], "oneOf": [{"type": "null"}]}, set()),
        ({"anyOf": [{"type": "integer"}, {}]}, set()),
        ({"anyOf": [{"type": "integer"}, None]}, set()),
        ({"anyOf": {"type": "integer"}}, set()),
        ({"anyOf": [{"anyOf": [{"type": "integer"}]}]}, set()),
        ({"allOf": [{"type": "integer"}]}, set()),
        ({"type": []}, set()),
        ({"type": None}, set()),
        ({"type": ["integer", 3]}, set()),
        ({"type": [["integer"]]}, set()),
        ({"type": "any"}, set()),
        ({"type": {"a": 1}}, set()),
        ({}, set()),
        (None, set()),
        (True, set()),
        ("integer", set()),
    ],
)
def test_types_are_read_only_where_they_are_explicit(schema: Any, types: set[str]) -> None:
    assert type_set(schema) == types


@pytest.mark.contract("TOOL-11", "TOOL-17")
def test_a_name_is_declared_invalid_or_undeclared() -> None:
    tools = DeclaredTools([definition("mcp.fs", p={})])
    names = ("mcp.fs", "mcp.gs", "other", "a" * 128, "a" * 129, "", "é")
    assert [tools.refusal(name) for name in names] == [
        None,
        "invalid_tool_name",
        "undeclared_tool",
        "undeclared_tool",
        "invalid_tool_name",
        "invalid_tool_name",
        "invalid_tool_name",
    ]


@pytest.mark.contract("TOOL-19")
def test_types_are_inferred_where_declarations_of_one_name_differ() -> None:
    integer, string = {"type": "integer"}, {"type": "string"}
    agreeing = DeclaredTools([definition("f", a=integer), definition("f", a={"type": "integer", "title": "A"})])
    assert agreeing.types("f", "a") == ({"integer"}, True)
    assert agreeing.types("f", "b") == (UNTYPED, False)
    for others in ([string], [string, integer], [integer, string], [string, string]):
        differing = DeclaredTools([definition("f", a=integer), *(definition("f", a=other) for other in others)])
        assert differing.types("f", "a") == (UNTYPED, True) == differing.types("f", "b")


@pytest.mark.parametrize("parameters", [{}, {"properties": None}, {"properties": []}, {"properties": {"a": 3}}, None])
def test_a_schema_of_any_shape_declares_a_tool(parameters: Any) -> None:
    tools = DeclaredTools([ToolDefinition(name="f", parameters=parameters, definition={})])
    assert tools.refusal("f") is None and tools.types("f", "a")[0] == UNTYPED
