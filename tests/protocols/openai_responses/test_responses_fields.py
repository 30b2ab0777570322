"""Top-level fields: ranges, neutral values, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ninfer_protocols.openai_responses.requests import KNOWN_FIELDS, PROMPT_FIELDS, RULES

from ninfer_core.testing.scripted_service import EventScript

Connect = Callable[..., Any]

# field -> (accepted values, refused values with the code of the refusal)
CASES: dict[str, tuple[list[Any], list[tuple[Any, str]]]] = {
    "background": ([False], [(True, "background_not_supported"), (0, "background_not_supported")]),
    "conversation": ([], [("conv_1", "conversation_not_supported"), ({"id": "c"}, "conversation_not_supported")]),
    "prompt": ([], [({"id": "p"}, "prompt_template_not_supported")]),
    "context_management": ([[]], [([{"type": "compaction"}], "context_management_not_supported")]),
    "moderation": ([], [({"model": "m"}, "moderation_not_supported")]),
    "truncation": (["disabled"], [("auto", "truncation_not_supported")]),
    "top_logprobs": ([0], [(3, "logprobs_not_supported"), (False, "logprobs_not_supported")]),
    "service_tier": (["auto", "default"], [("flex", "service_tier_not_supported")]),
    "client_metadata": ([{}, {"a": {"b": 1}}], [("x", "invalid_value"), ([1], "invalid_value")]),
    "user": (["me"], [(3, "invalid_value")]),
    "safety_identifier": (["x" * 64], [("x" * 65, "invalid_value")]),
    "prompt_cache_key": (["x" * 64], [("x" * 65, "invalid_value")]),
    "prompt_cache_retention": (["in_memory", "24h"], [("1h", "invalid_value")]),
    "prompt_cache_options": (
        [{}, {"mode": "explicit", "ttl": "30m"}, {"mode": "implicit"}],
        [({"mode": "x"}, "invalid_value"), ({"ttl": "1h"}, "invalid_value"), ("x", "invalid_value")],
    ),
    "max_output_tokens": (
        [0, 5],
        [
            (-1, "invalid_value"),
            (2**64, "invalid_value"),
            ("5", "invalid_type"),
            (1.5, "invalid_type"),
            (True, "invalid_type"),
        ],
    ),
    "max_tool_calls": ([0, 9], [(-1, "invalid_value"), ("1", "invalid_type")]),
    "stream": ([False], [("yes", "invalid_type")]),
    "store": ([True, False], [("no", "invalid_type")]),
    "stream_options": ([{"include_obfuscation": False}, {}], [("x", "invalid_type")]),
    "temperature": ([0, 2, 0.5], [(2.1, "invalid_value"), (-0.1, "invalid_value"), ("1", "invalid_type")]),
    "top_p": ([0, 1], [(1.1, "invalid_value")]),
    "metadata": (
        [{}, {f"k{n}": "v" for n in range(16)}, {"k" * 64: "v" * 512}],
        [
            ({f"k{n}": "v" for n in range(17)}, "invalid_value"),
            ({"k" * 65: "v"}, "invalid_value"),
            ({"k": "v" * 513}, "invalid_value"),
            ({"k": 1}, "invalid_value"),
            ("x", "invalid_type"),
        ],
    ),
    "instructions": (["x", ""], [(["x"], "invalid_type")]),
    "include": (
        [[], ["reasoning.encrypted_content"]],
        [(["file_search_call.results"], "include_not_supported"), ("x", "invalid_type")],
    ),
    "preserve_thinking": ([True, False], [("x", "invalid_type")]),
    "chat_template_kwargs": ([{}, {"preserve_thinking": True}, {"other": None}], []),
    "parallel_tool_calls": ([True, False], [("x", "invalid_type")]),
    "tools": ([[]], [({}, "invalid_type")]),
    "tool_choice": (["auto", "none"], [("required", "tool_choice_not_supported")]),
    "text": ([{}, {"format": {"type": "text"}}, {"verbosity": "medium"}], [("x", "invalid_type")]),
    "reasoning": ([{}, {"effort": None, "summary": None}, {"effort": "none"}, {"effort": "low"}], []),
}
ACCEPTED = [(field, value) for field, (accepted, _) in CASES.items() for value in [*accepted, None]]
REFUSED = [(field, value, code) for field, (_, refused) in CASES.items() for value, code in refused]


def test_every_field_has_a_case() -> None:
    assert set(CASES) | {"model", "input", "previous_response_id"} == KNOWN_FIELDS
    assert {rule.field for rule in RULES} <= set(CASES)


@pytest.mark.contract(
    "RESP-5",
    "RESP-6",
    "RESP-7",
    "RESP-8",
    "RESP-12",
    "RESP-16",
    "RESP-18",
    "RESP-19",
    "RESP-20",
    "RESP-21",
    "PCACHE-8",
    "ERR-7",
)
@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_what_is_accepted(connect: Connect, field: str, value: object) -> None:
    connect().create(**{field: value})


@pytest.mark.contract("RESP-9", "RESP-16", "PCACHE-8", "ERR-7")
@pytest.mark.parametrize(
    "field",
    ["client_metadata", "user", "safety_identifier", "prompt_cache_retention", "service_tier", "max_tool_calls"],
)
def test_what_is_only_checked_changes_nothing(connect: Connect, field: str) -> None:
    connection = connect()
    for value in (None, *CASES[field][0]):
        connection.create(store=False, **{field: value})
    first, *others = connection.service.requests
    assert others and all(other == first for other in others)


@pytest.mark.contract("RESP-7", "RESP-8", "RESP-17", "RESP-18", "RESP-19", "RESP-22", "RESP-74", "IMPL-17", "ERR-7")
@pytest.mark.parametrize(("field", "value", "code"), REFUSED)
def test_what_is_refused_by_name(connect: Connect, field: str, value: object, code: str) -> None:
    error = connect().refusal(**{field: value})
    assert (error["param"].partition("[")[0], error["code"]) == (field, code)
    assert field in error["message"]


@pytest.mark.contract("RESP-1", "RESP-2", "RESP-10", "RESP-11", "RESP-12", "IMPL-17", "TMPL-3")
@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        *(
            ({"reasoning": {"effort": effort}}, "reasoning.effort", "reasoning_effort_not_supported")
            for effort in ("minimal", "high", "max")
        ),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_value"),
        ({"reasoning": {"effort": ["low"]}}, "reasoning.effort", "invalid_value"),
        *(
            ({"reasoning": {"effort": "low", member: "x"}}, f"reasoning.{member}", "reasoning_option_not_supported")
            for member in ("summary", "generate_summary", "context", "mode")
        ),
        ({"text": {"format": {"type": "json_object"}}}, "text.format", "structured_outputs_not_supported"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}},
            "text.format",
            "structured_outputs_not_supported",
        ),
        ({"text": {"format": "text"}}, "text.format", "structured_outputs_not_supported"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "verbosity_not_supported"),
        ({"chat_template_kwargs": {"preserve_thinking": 1}}, "chat_template_kwargs.preserve_thinking", "invalid_value"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs.enable_thinking", "invalid_value"),
        (
            {"chat_template_kwargs": {"preserve_thinking": True}, "preserve_thinking": False},
            "preserve_thinking",
            "conflicting_template_option",
        ),
        ({"model": ""}, "model", "invalid_value"),
        ({"model": None}, "model", "invalid_value"),
        ({"model": 5}, "model", "invalid_type"),
        ({"input": None}, "input", "invalid_value"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": []}, "input", "invalid_value"),
        ({"input": {"role": "user"}}, "input", "invalid_type"),
    ],
)
def test_refusals_inside_of_fields(connect: Connect, fields: dict[str, Any], param: str, code: str) -> None:
    error = connect().refusal(**fields)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.contract("RESP-22")
@pytest.mark.parametrize("field", ["brand_new_option", "top_k", "seed", "stop", "messages", "max_tokens", "x" * 500])
def test_unknown_fields_are_refused(connect: Connect, field: str) -> None:
    error = connect().refusal(**{field: None})
    assert error["code"] == "unknown_parameter" and error["param"] == field[:80]


@pytest.mark.contract("RESP-1", "ERR-4")
def test_another_model(connect: Connect) -> None:
    response = connect().post(model="other")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found" and response.json()["error"]["param"] == "model"


@pytest.mark.contract("RESP-5", "RESP-7", "RESP-10", "RESP-11")
def test_what_reaches_the_engine(connect: Connect) -> None:
    connection = connect()
    connection.create(temperature=0.5, top_p=0.2, max_output_tokens=0, reasoning={"effort": "none"})
    request = connection.service.requests[-1]
    assert (request.sampling.temperature, request.sampling.top_p, request.max_output_tokens) == (0.5, 0.2, 0)
    assert (request.template.enable_thinking, request.template.reasoning_effort) == (False, None)
    connection.create(reasoning={"effort": "xhigh"}, chat_template_kwargs={"preserve_thinking": True})
    request = connection.service.requests[-1]
    assert request.max_output_tokens is None
    assert (request.template.enable_thinking, request.template.reasoning_effort) == (None, "xhigh")
    assert request.template.preserve_thinking is True
    assert request.structural_marks is False


@pytest.mark.contract("GEN-10", "RESP-72", "RESP-73", "RESP-80")
def test_counting_takes_the_same_path(connect: Connect) -> None:
    connection = connect()
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    fields = {
        "instructions": "Be brief.",
        "tools": [tool],
        "reasoning": {"effort": "low"},
        "preserve_thinking": True,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "tool_choice": "auto",
    }
    assert connection.post("/v1/responses/input_tokens", **fields).json() == {
        "object": "response.input_tokens",
        "input_tokens": 7,
    }
    connection.create(**fields, store=False)
    counted, created = connection.service.requests
    assert (counted.messages, counted.tools, counted.template) == (created.messages, created.tools, created.template)


@pytest.mark.contract("RESP-80")
def test_counting_looks_parents_and_calls_up_as_creating_does(connect: Connect) -> None:
    connection = connect(EventScript(pieces=(), calls=(("maps__look", {"a": 1}),)))
    tools = [{"type": "namespace", "name": "maps", "description": "", "tools": [{"type": "function", "name": "look"}]}]
    first = connection.create(tools=tools)
    result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "12 C"}
    fields = {"previous_response_id": first["id"], "input": [result], "tools": tools}
    assert connection.post("/v1/responses/input_tokens", **fields).status_code == 200
    connection.create(**fields)
    counted, created = connection.service.requests[1:]
    assert [message.role for message in counted.messages] == ["user", "assistant", "tool"]
    assert counted.messages == created.messages and counted.messages[1].tool_calls[0].name == "maps__look"
    for changed in ({"previous_response_id": "resp_0"}, {"input": [result | {"call_id": "call_0"}]}):
        refusals = [
            connection.post(path, **fields | changed) for path in ("/v1/responses/input_tokens", "/v1/responses")
        ]
        assert refusals[0].status_code in (400, 404) and refusals[0].json() == refusals[1].json()


@pytest.mark.contract("RESP-72", "RESP-74")
@pytest.mark.parametrize("field", sorted(KNOWN_FIELDS - PROMPT_FIELDS - {rule.field for rule in RULES}))
def test_counting_takes_nothing_else(connect: Connect, field: str) -> None:
    values: dict[str, Any] = {"metadata": {"a": "b"}, "stream_options": {}, "include": []}
    error = connect().refusal("/v1/responses/input_tokens", **{field: values.get(field, 1)})
    assert (error["param"], error["code"]) == (field, "unknown_parameter")
    assert connect().post("/v1/responses/input_tokens", **{field: None}).status_code == 200


@pytest.mark.contract("RESP-74")
@pytest.mark.parametrize("field", ["conversation", "background", "prompt"])
def test_counting_refuses_what_creating_refuses(connect: Connect, field: str) -> None:
    error = connect().refusal("/v1/responses/input_tokens", **{field: True})
    assert error["code"].endswith("_not_supported")
