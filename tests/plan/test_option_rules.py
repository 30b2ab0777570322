"""Options that exclude or need one another, and options for what is not built."""

from __future__ import annotations

import pytest

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.plan.option_rules import CACHE_CAPACITIES, option_problems
from ninfer_core.plan.option_sources import load_options
from ninfer_core.plan.options import ServeOptions, option_infos, variable_name

EXAMPLES = {
    "device_state_slots": "0",
    "host_state_slots": "8",
    "host_kv_mib": "0",
    "max_private_continuations": "0",
    "max_shared_prefixes": "4",
    "max_long_anchors_per_continuation": "2",
    "context_cost_presets": "costs.json",
    "vision": "true",
    "media_cache_mib": "1024",
    "media_live_mib": "2048",
    "media_preprocess_threads": "0",
    "allow_private_media": "true",
    "request_log_jsonl": "log.jsonl",
}
"""A value for every option that is not built, its default's own value where it has one."""


def of_code(options: ServeOptions, code: str) -> list[Problem]:
    return [problem for problem in option_problems(options) if problem.code == code]


def test_nothing_given_is_nothing_wrong() -> None:
    assert option_problems(ServeOptions()) == []


def test_the_examples_are_all_that_is_not_built() -> None:
    assert {name for name, info in option_infos().items() if not info.built} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_given_and_not_built(name: str) -> None:
    options = load_options({}, {variable_name(name): EXAMPLES[name]})
    (problem,) = of_code(options, "not_built_yet")
    assert variable_name(name) in problem.message


@pytest.mark.parametrize("name", [name for name, value in EXAMPLES.items() if value == "true"])
def test_a_switch_that_is_given_as_off_is_what_runs(name: str) -> None:
    assert option_problems(load_options({}, {variable_name(name): "false"})) == []


@pytest.mark.contract("OPT-29", "OPT-30", "OPT-37", "OPT-38", "OPT-40", "OPT-44")
@pytest.mark.parametrize(
    "name", ["no_cuda_graph", "no_prefix_reuse", "no_thinking", "preserve_thinking", "cors", "greedy"]
)
def test_built_switches(name: str) -> None:
    assert option_problems(load_options({name: True}, {})) == []


@pytest.mark.contract("OPT-30")
@pytest.mark.parametrize("name", CACHE_CAPACITIES)
@pytest.mark.parametrize("value", ["0", "3"])
def test_no_prefix_reuse_excludes_cache_capacities(name: str, value: str) -> None:
    options = load_options({"no_prefix_reuse": True}, {variable_name(name): value})
    (problem,) = of_code(options, "option_conflict")
    assert "--no-prefix-reuse" in problem.message
    assert variable_name(name) in problem.message


@pytest.mark.contract("OPT-30")
def test_no_prefix_reuse_names_all_it_excludes_once() -> None:
    options = ServeOptions(no_prefix_reuse=True, host_kv_mib=0, max_shared_prefixes=1)
    (problem,) = of_code(options, "option_conflict")
    assert "--host-kv-mib, --max-shared-prefixes" in problem.message


@pytest.mark.contract("OPT-24", "OPT-25")
@pytest.mark.parametrize("options", [ServeOptions(draft_tokens=1), ServeOptions(lm_head_draft=True)])
def test_drafting_needs_a_backend(options: ServeOptions) -> None:
    (problem,) = of_code(options, "option_conflict")
    assert "--spec" in problem.remedy


def test_assumed_memory_is_for_cuda() -> None:
    assert of_code(ServeOptions(device="cpu", assume_device_memory=2**30), "option_conflict")
    assert not of_code(ServeOptions(device=0, assume_device_memory=2**30), "option_conflict")


def test_conflicts_and_what_is_not_built_are_found_together() -> None:
    options = ServeOptions(draft_tokens=3, vision=True)
    codes = sorted(problem.code for problem in option_problems(options))
    assert codes == ["not_built_yet", "option_conflict"]


@pytest.mark.contract("TMPL-9")
def test_no_thinking_may_stand_beside_a_budget() -> None:
    options = ServeOptions(no_thinking=True, default_thinking_budget=10)
    assert of_code(options, "option_conflict") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("m" * 201, "--model-id has 201 characters; at most 200 are allowed"),
        ("two\nlines", "--model-id is 'two\\nlines'; only printable characters are allowed"),
    ],
)
def test_a_public_name_is_short_and_printable(name: str, said: str) -> None:
    (problem,) = of_code(load_options({"model_id": name}, {}), "option_invalid")
    assert problem.message == said
    assert not of_code(load_options({"model_id": "m" * 200}, {}), "option_invalid")


def test_no_protocol_is_said_in_words() -> None:
    with pytest.raises(PlanRejected) as refused:
        load_options({"protocols": ""}, {})
    assert [problem.message for problem in refused.value.problems] == ["--protocols names nothing"]
