"""Every field of the refusal tables, at its neutral value and at one that is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ninfer_protocols.openai_chat.lowering import lower
from ninfer_protocols.openai_chat.unsupported import RULES

from ninfer_core.api import RequestError

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

# field -> (accepted values, refused values, code of the refusal)
CASES: dict[str, tuple[list[Any], list[Any], str]] = {
    "n": ([1, 1.0], [2, 0, True, "1"], "n_not_supported"),
    "modalities": ([["text"]], [["text", "audio"], "text"], "modality_not_supported"),
    "response_format": (
        [{"type": "text"}],
        [{"type": "json_object"}, {"type": "json_schema", "json_schema": {}}, "text"],
        "structured_outputs_not_supported",
    ),
    "logit_bias": ([{}, {"5": 0}], [{"5": 1}, [1]], "logit_bias_not_supported"),
    "logprobs": ([False], [True, 0], "logprobs_not_supported"),
    "top_logprobs": ([0], [1, False], "logprobs_not_supported"),
    "web_search_options": ([], [{}], "web_search_not_supported"),
    "moderation": ([], [{"model": "m"}], "moderation_not_supported"),
    "verbosity": (["medium"], ["low", "high"], "verbosity_not_supported"),
    "store": ([False], [True], "store_not_supported"),
    "functions": ([[]], [[{"name": "f"}]], "legacy_tools_not_supported"),
    "function_call": (["none", "auto"], [{"name": "f"}], "legacy_tools_not_supported"),
    "repetition_penalty": ([1, 1.0], [1.05, True], "repetition_penalty_not_supported"),
    "mm_processor_kwargs": ([{}, {"fps": None}], [{"fps": 2}], "mm_processor_kwargs_not_supported"),
    **{
        field: ([], ["x", {"a": 1}], "structured_outputs_not_supported")
        for field in (
            "grammar",
            "structured_outputs",
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
        )
    },
    "audio": ([{"voice": "x", "format": "wav"}], ["x"], "invalid_value"),
    "prediction": ([{"type": "content", "content": "x"}], [1], "invalid_value"),
    "metadata": ([{"a": "b"}], ["x"], "invalid_value"),
    "user": (["me"], [3], "invalid_value"),
    "service_tier": (["auto"], [3], "invalid_value"),
    "safety_identifier": (["x" * 64], ["x" * 65, 3], "invalid_value"),
    "prompt_cache_key": (["x" * 64], ["x" * 65], "invalid_value"),
    "prompt_cache_retention": (["in_memory", "24h"], ["1h"], "invalid_value"),
    "prompt_cache_options": ([{}, {"mode": "explicit", "ttl": "30m"}], [{"mode": "x"}, {"ttl": "1h"}], "invalid_value"),
    "timings_per_token": ([True, False], ["x"], "invalid_type"),
    "return_progress": ([True, False], [1], "invalid_type"),
    "parallel_tool_calls": ([True, False], ["x"], "invalid_type"),
    "tool_choice": (
        ["none", "auto"],
        ["required", {"type": "function", "function": {"name": "f"}}],
        "tool_choice_not_supported",
    ),
    "tools": ([[], [TOOL]], ["x"], "invalid_type"),
}


def chat(**fields: Any) -> None:
    lower(json.dumps({"messages": [{"role": "user", "content": "hi"}]} | fields).encode(), "tiny")


def test_every_rule_of_the_table_has_a_case() -> None:
    assert {rule.field for rule in RULES} <= set(CASES)


@pytest.mark.contract("CHAT-12", "CHAT-15", "CHAT-28", "CHAT-29", "CHAT-33")
@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, (accepted, _, _) in CASES.items() for value in [*accepted, None]]
)
def test_neutral_values_are_accepted(field: str, value: object) -> None:
    chat(**{field: value})


@pytest.mark.contract(
    "CHAT-12", "CHAT-21", "CHAT-22", "CHAT-23", "CHAT-24", "CHAT-25", "CHAT-26", "CHAT-27", "CHAT-33", "ERR-5", "ERR-7"
)
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [(field, value, code) for field, (_, refused, code) in CASES.items() for value in refused],
)
def test_everything_else_is_refused_by_name(field: str, value: object, code: str) -> None:
    with pytest.raises(RequestError) as raised:
        chat(**{field: value})
    assert (raised.value.param, raised.value.code) == (field, code)
    assert field in raised.value.message


@pytest.mark.contract("CHAT-24")
@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "function", "function": {"name": "f", "strict": True}}, "tools[0].function.strict"),
        ({"type": "function", "function": {"description": "x"}}, "tools[0].function.name"),
        ({"type": "function"}, "tools[0].function"),
        ({"type": "web_search"}, "tools[0].type"),
    ],
)
def test_a_tool_that_no_release_will_accept_says_why(tool: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as raised:
        chat(tools=[tool])
    assert raised.value.param == param
