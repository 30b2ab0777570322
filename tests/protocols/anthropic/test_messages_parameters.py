"""Everything beside the history: limits, sampling, thinking, effort, tools, cache hints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ninfer_protocols.anthropic import ninfer_protocol_lower
from ninfer_protocols.anthropic.lowering import lower, lower_prompt
from ninfer_protocols.anthropic.thinking import EffortRules

from ninfer_core.api import CacheMark, GenerationRequest, RequestError, TemplateOptions

EFFORTS = EffortRules(exposed=("low", "medium", "xhigh"), map_highest=False)
EPHEMERAL = {"type": "ephemeral"}
HOUR = EPHEMERAL | {"ttl": "1h"}
TOOL: dict[str, Any] = {"name": "look", "description": "w", "input_schema": {"type": "object", "properties": {}}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]} | fields).encode()


def lowered(efforts: EffortRules = EFFORTS, **fields: Any) -> GenerationRequest:
    return lower(body(**fields), efforts).request


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        lowered(**fields)
    return raised.value


@pytest.mark.contract("ANTH-7", "IMPL-14")
def test_output_limit() -> None:
    assert lowered().max_output_tokens is None
    assert lowered(max_tokens=None).max_output_tokens is None
    assert lowered(max_tokens=10**30).max_output_tokens == 10**30
    assert refusal(max_tokens=0).code == "cache_prewarm_not_supported"
    assert (refusal(max_tokens=-5).param, refusal(max_tokens=-5).code) == ("max_tokens", "invalid_value")
    for wrong in ("5", True, 1.5):
        assert (refusal(max_tokens=wrong).param, refusal(max_tokens=wrong).code) == ("max_tokens", "invalid_type")


@pytest.mark.contract("ANTH-8", "IMPL-11", "ANTH-9")
def test_sampling_and_stops() -> None:
    found = lowered(temperature=1, top_p=0, top_k=20, stop_sequences=["END", "\n\n"])
    assert (found.sampling.temperature, found.sampling.top_p, found.sampling.top_k) == (1, 0, 20)
    assert (found.stop, found.stop_channels) == (("END", "\n\n"), ("content",))
    assert lowered(stop_sequences=None).stop == lowered(stop_sequences=[]).stop == ()
    assert len(lowered(stop_sequences=["x"] * 64).stop) == 64


@pytest.mark.contract("IMPL-11")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 1.01),
        ("temperature", -0.1),
        ("temperature", "1"),
        ("top_p", 1.5),
        ("top_k", 21),
        ("top_k", -1),
        ("top_k", 1.5),
        ("stop_sequences", ["a", ""]),
        ("stop_sequences", ["a"] * 65),
        ("stop_sequences", "END"),
        ("stream", "yes"),
        ("model", ""),
        ("model", None),
        ("model", 3),
        ("thinking", "on"),
        ("output_config", "low"),
        ("preserve_thinking", 1),
        ("cache_control", "ephemeral"),
        ("tools", {}),
        ("tool_choice", "auto"),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: Any) -> None:
    error = refusal(**{field: value})
    assert (error.param or "").split("[")[0] == field
    assert error.code in ("invalid_value", "invalid_type", "invalid_cache_control")


def test_model_is_needed() -> None:
    with pytest.raises(RequestError) as raised:
        lower(b'{"messages":[{"role":"user","content":"x"}]}', EFFORTS)
    assert "model" in raised.value.message


@pytest.mark.contract("ANTH-11", "TMPL-10")
@pytest.mark.parametrize(
    ("thinking", "enabled", "budget"),
    [
        (None, None, None),
        ({"type": "disabled"}, False, None),
        ({"type": "disabled", "budget_tokens": 3}, False, None),
        ({"type": "adaptive"}, True, None),
        ({"type": "adaptive", "display": "summarized"}, True, None),
        ({"type": "enabled", "budget_tokens": 1024}, True, 1024),
    ],
)
def test_thinking(thinking: Any, enabled: bool | None, budget: int | None) -> None:
    for limit in (1025, None):
        found = lowered(thinking=thinking, max_tokens=limit)
        assert (found.template.enable_thinking, found.thinking_budget) == (enabled, budget)


@pytest.mark.contract("ANTH-11", "ANTH-14", "IMPL-14")
@pytest.mark.parametrize(
    ("thinking", "param", "code"),
    [
        ({"type": "enabled"}, "thinking.budget_tokens", "invalid_value"),
        ({"type": "enabled", "budget_tokens": 1023}, "thinking.budget_tokens", "invalid_value"),
        ({"type": "enabled", "budget_tokens": -1}, "thinking.budget_tokens", "invalid_value"),
        ({"type": "enabled", "budget_tokens": 4000}, "thinking.budget_tokens", "invalid_value"),
        ({"type": "enabled", "budget_tokens": "2000"}, "thinking.budget_tokens", "invalid_type"),
        ({"type": "on"}, "thinking.type", "invalid_value"),
        ({}, "thinking.type", "invalid_type"),
        ({"type": "adaptive", "display": "omitted"}, "thinking.display", "thinking_display_not_supported"),
        ({"type": "disabled", "display": "omitted"}, "thinking.display", "thinking_display_not_supported"),
        ({"type": "adaptive", "display": "all"}, "thinking.display", "invalid_value"),
    ],
)
def test_thinking_that_is_refused(thinking: Any, param: str, code: str) -> None:
    error = refusal(thinking=thinking, max_tokens=4000)
    assert (error.param, error.code) == (param, code)


@pytest.mark.contract("ANTH-15", "TMPL-3")
def test_effort() -> None:
    def options(efforts: EffortRules = EFFORTS, effort: str | None = None, **fields: Any) -> TemplateOptions:
        return lowered(efforts, output_config={"effort": effort}, **fields).template

    assert options(effort="low").reasoning_effort == "low"
    assert options().reasoning_effort is None
    assert options(effort="low", thinking={"type": "disabled"}) == TemplateOptions(enable_thinking=False)
    assert lowered(preserve_thinking=True).template.preserve_thinking is True
    for effort in ("high", "max"):
        error = refusal(output_config={"effort": effort}, thinking={"type": "disabled"})
        assert (error.param, error.code) == ("output_config.effort", "reasoning_effort_not_supported")
        assert "low, medium, xhigh" in error.message
        assert options(EffortRules(exposed=EFFORTS.exposed, map_highest=True), effort).reasoning_effort == "xhigh"
        assert options(EffortRules(exposed=("low", effort), map_highest=True), effort).reasoning_effort == effort
        assert options(EffortRules(exposed=(), map_highest=True), effort).reasoning_effort is None
    assert refusal(output_config={"effort": "enormous"}).code == "invalid_value"
    with pytest.raises(RequestError):
        options(EffortRules(exposed=("low",), map_highest=True), "xhigh")


@pytest.mark.contract("ANTH-16", "CHAT-40")
def test_tools_are_shown_as_functions_in_their_own_order() -> None:
    schema = {"type": "object", "z": 1, "properties": {"b": {}, "a": {}}, "required": ["b"]}
    tool = {"name": "look", "input_schema": schema, "description": "d", "input_examples": [{"b": 1}], "type": "custom"}
    (found,) = lowered(tools=[tool | {"eager_input_streaming": True, "allowed_callers": ["code", "direct"]}]).tools
    assert (found.name, found.parameters) == ("look", schema)
    shown = {"name": "look", "description": "d", "parameters": schema, "input_examples": [{"b": 1}]}
    assert json.dumps(found.definition) == json.dumps({"type": "function", "function": shown})
    bare = lowered(tools=[{"name": "a", "input_schema": {}}]).tools[0].definition
    assert bare == {"type": "function", "function": {"name": "a", "parameters": {}}}


@pytest.mark.contract("ANTH-17", "IMPL-16")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": "web_search_20250305"}, "anthropic_tools_not_supported"),
        ({"type": "bash_20250124"}, "anthropic_tools_not_supported"),
        ({"type": 5}, "anthropic_tools_not_supported"),
        ({"type": "toolset"}, "toolsets_not_supported"),
        ({"type": "mcp_toolset"}, "toolsets_not_supported"),
        ({"strict": True}, "strict_tools_not_supported"),
        ({"defer_loading": True}, "deferred_tools_not_supported"),
        ({"allowed_callers": ["code_execution_20250825"]}, "tool_caller_not_supported"),
        ({"allowed_callers": []}, "tool_caller_not_supported"),
        ({"name": ""}, "invalid_value"),
        ({"name": "a.b"}, "invalid_value"),
        ({"name": "a" * 129}, "invalid_value"),
        ({"name": None}, "invalid_value"),
        ({"input_schema": None}, "invalid_value"),
        ({"input_schema": {"type": "array"}}, "invalid_value"),
        ({"description": 3}, "invalid_type"),
        ({"input_examples": {}}, "invalid_type"),
        ({"input_examples": [1]}, "invalid_type"),
    ],
)
def test_tools_that_are_refused(change: dict[str, Any], code: str) -> None:
    error = refusal(tools=[{"name": "other", "input_schema": {}}, TOOL | change])
    assert error.code == code and (error.param or "").startswith("tools[1].")


def test_one_name_one_tool() -> None:
    error = refusal(tools=[TOOL, TOOL])
    assert (error.code, error.param) == ("duplicate_tool_name", "tools[1].name")


@pytest.mark.contract("ANTH-17", "IMPL-16", "TOOL-16")
def test_tool_choice() -> None:
    assert len(lowered(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": False}).tools) == 1
    assert lowered(tools=[TOOL], tool_choice={"type": "none"}).tools == ()
    dropped = [TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    assert lowered(tools=dropped, tool_choice={"type": "none", "disable_parallel_tool_use": True}).tools == ()
    assert lowered(tool_choice={"type": "auto", "disable_parallel_tool_use": True}).tools == ()
    for choice in ({"type": "any"}, {"type": "tool", "name": "look"}):
        assert refusal(tools=[TOOL], tool_choice=choice).code == "tool_choice_not_supported"
    single = {"type": "auto", "disable_parallel_tool_use": True}
    assert refusal(tools=[TOOL], tool_choice=single).code == "parallel_tool_use_not_supported"
    assert refusal(tools=[TOOL], tool_choice={"type": "some"}).code == "invalid_value"


@pytest.mark.contract("ANTH-17", "ANTH-27")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"container": "c"}, "container_not_supported"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_not_supported"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "structured_outputs_not_supported"),
        ({"output_format": {"type": "json_schema"}}, "structured_outputs_not_supported"),
    ],
)
def test_capabilities_that_are_refused(fields: dict[str, Any], code: str) -> None:
    error = refusal(**fields)
    assert error.code == code and error.param and error.param.split(".")[0] in fields
    assert lowered(container=None, mcp_servers=[], output_config={"format": None}, output_format=None)


def marks(**fields: Any) -> list[tuple[int | None, int | None, str, str | None]]:
    found = lowered(**fields).cache_marks
    assert all(isinstance(mark, CacheMark) for mark in found)
    return [(mark.message, mark.part, mark.evidence, mark.ttl) for mark in found]


def block(words: str, control: Any = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({} if control is None else {"cache_control": control})


@pytest.mark.contract("ANTH-21", "ANTH-23", "ANTH-46")
def test_block_marks_become_places_of_the_prompt() -> None:
    called = [
        {"type": "thinking", "thinking": "t"},
        block("a", HOUR),
        {"type": "tool_use", "id": "t1", "name": "look", "input": {}, "cache_control": HOUR},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {}, "cache_control": EPHEMERAL},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "t2", "content": [block("r", EPHEMERAL), block("s")]},
        {"type": "tool_result", "tool_use_id": "t1", "cache_control": EPHEMERAL | {"scope": "global"}},
    ]
    history = [
        {"role": "user", "content": [block("x"), block("y")]},
        {"role": "assistant", "content": called},
        {"role": "user", "content": results},
    ]
    # The call t1 is not the end of its turn, so that its mark is no place.
    assert marks(messages=history, system=[block("s")], tools=[TOOL]) == [
        (2, 0, "explicit", "1h"),
        (2, None, "explicit", "5m"),
        (3, None, "explicit", "5m"),
        (4, 0, "explicit", "5m"),
    ]
    assert marks(tools=[TOOL, TOOL | {"name": "b", "cache_control": HOUR}], system=[block("s", EPHEMERAL)]) == [
        (None, 1, "explicit", "1h"),
        (0, 0, "explicit", "5m"),
    ]
    assert lowered(system=[block("s", EPHEMERAL)]).structural_marks


@pytest.mark.contract("ANTH-22", "IMPL-15")
def test_the_request_marks_its_last_block() -> None:
    assert marks(cache_control=EPHEMERAL) == [(0, 0, "automatic", "5m")]
    assert not lowered(cache_control=EPHEMERAL).structural_marks
    last = [{"role": "user", "content": [block("x", HOUR)]}]
    assert marks(cache_control=HOUR, messages=last) == [(0, 0, "explicit", "1h")]
    assert refusal(cache_control=EPHEMERAL, messages=last).code == "conflicting_cache_ttl"
    assert marks(cache_control=None) == []
    empty = [{"role": "user", "content": ""}]
    assert marks(cache_control=EPHEMERAL, messages=empty) == []


@pytest.mark.contract("ANTH-21", "ANTH-22", "IMPL-15")
def test_four_places_at_most() -> None:
    four = [block(str(index), EPHEMERAL) for index in range(4)]
    assert len(marks(system=four)) == 4
    assert refusal(system=[*four, block("4", EPHEMERAL)]).code == "too_many_cache_breakpoints"
    assert refusal(system=four, cache_control=EPHEMERAL).code == "too_many_cache_breakpoints"
    assert len(marks(system=four[:3], cache_control=EPHEMERAL)) == 4
    merged = [{"role": "user", "content": [block("x", EPHEMERAL)]}]
    assert len(marks(system=four[:3], messages=merged, cache_control=EPHEMERAL)) == 4


@pytest.mark.contract("IMPL-15")
def test_one_place_one_ttl() -> None:
    result = {"type": "tool_result", "tool_use_id": "t0", "content": [block("r", EPHEMERAL)], "cache_control": HOUR}
    history = [{"role": "user", "content": [result]}]
    assert refusal(messages=history).code == "conflicting_cache_ttl"
    result["cache_control"] = EPHEMERAL
    assert marks(messages=history) == [(1, 0, "explicit", "5m")]


@pytest.mark.contract("ANTH-46", "ANTH-23")
@pytest.mark.parametrize(
    "control", [{}, {"type": "persistent"}, EPHEMERAL | {"ttl": "2h"}, EPHEMERAL | {"ttl": 5}, "ephemeral", [], True]
)
def test_a_malformed_control(control: Any) -> None:
    for fields in (
        {"cache_control": control},
        {"system": [block("s", control)]},
        {"tools": [TOOL | {"cache_control": control}]},
    ):
        error = refusal(**fields)
        assert error.code in ("invalid_cache_control", "invalid_type")
        assert "cache_control" in (error.param or "")


@pytest.mark.contract("ANTH-46")
@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
def test_thinking_is_no_place_to_cache_at(kind: str) -> None:
    thought = {"type": kind, "thinking": "t", "data": "d", "cache_control": EPHEMERAL}
    history = [{"role": "assistant", "content": [thought]}, {"role": "user", "content": "x"}]
    assert refusal(messages=history).code == "invalid_cache_control"


@pytest.mark.contract("ANTH-32")
def test_counting_reads_the_prompt_alone() -> None:
    fields: dict[str, Any] = {
        "tools": [TOOL],
        "system": [block("s", HOUR)],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"effort": "low"},
    }
    full = lowered(**fields)
    counted = lower_prompt(
        body(**fields, max_tokens=0, temperature=9, top_k="x", stop_sequences=[""], stream=3), EFFORTS
    )
    for name in ("messages", "tools", "template", "continue_final", "cache_marks"):
        assert getattr(counted, name) == getattr(full, name)
    for bad in ({"thinking": {"type": "enabled"}}, {"tool_choice": {"type": "any"}}, {"messages": []}, {"model": ""}):
        with pytest.raises(RequestError):
            lower_prompt(body(**bad), EFFORTS)


def test_rendering_a_file_leaves_the_effort_to_the_template() -> None:
    assert ninfer_protocol_lower(body=body(output_config={"effort": "high"})).template.reasoning_effort == "high"


def test_a_budget_that_is_missing_is_said_to_be() -> None:
    with pytest.raises(RequestError, match="is missing; it must be 1024 or more"):
        lowered(thinking={"type": "enabled"})
