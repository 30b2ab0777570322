"""Every option of the contract by its number: default, range, spelling."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.plan.option_info import TABLE_TITLES, SecretText
from ninfer_core.plan.option_sources import load_options
from ninfer_core.plan.options import (
    ServeOptions,
    default_text,
    flag_name,
    option_defaults,
    option_infos,
    options_by_table,
    variable_name,
)

UNSET: Any = None

# contract line, field, default when it is not given, values at the edges of the range, values just outside
LINES: list[tuple[str, str, Any, tuple[str, ...], tuple[str, ...]]] = [
    ("OPT-1", "host", "127.0.0.1", ("0.0.0.0", "::1"), ("", "  ")),
    ("OPT-2", "port", 8080, ("1", "65535"), ("0", "65536", "-1", "http", "80.5")),
    ("OPT-3", "api_key", UNSET, ("k",), ("",)),
    ("OPT-4", "model_id", UNSET, ("m",), ("",)),
    ("OPT-5", "max_context", UNSET, ("1", "2147483647"), ("0", "-1", "2147483648", "8k")),
    ("OPT-6", "kv_capacity", UNSET, ("1", "auto"), ("0", "Auto", "-64")),
    ("OPT-7", "max_concurrency", 1, ("1", "8"), ("0", "9")),
    ("OPT-8", "max_pending_requests", 16, ("1",), ("0",)),
    ("OPT-9", "pending_timeout_ms", 30000, ("1",), ("0",)),
    ("OPT-10", "prefill_chunk", 1024, ("128", "256"), ("0", "64", "127", "129", "1000")),
    ("OPT-11", "log_stats_interval_ms", 5000, ("0", "1"), ("-1",)),
    ("OPT-12", "log_level", "info", ("trace", "debug", "warning", "error", "critical", "off"), ("INFO", "warn", "")),
    ("OPT-13", "device", UNSET, ("0", "7", "cpu"), ("-1", "cuda", "CPU")),
    ("OPT-14", "context_cost_presets", UNSET, ("costs.json",), ("",)),
    ("OPT-15", "max_request_mib", 384, ("1",), ("0",)),
    ("OPT-16", "media_cache_mib", UNSET, ("0",), ("-1",)),
    ("OPT-17", "media_live_mib", UNSET, ("1",), ("0",)),
    ("OPT-18", "media_preprocess_threads", UNSET, ("0", "64"), ("-1", "65")),
    ("OPT-19", "request_log_jsonl", UNSET, ("log.jsonl",), ("",)),
    ("OPT-20", "response_store_max_records", 1024, ("1",), ("0",)),
    ("OPT-21", "response_store_max_mib", 256, ("1",), ("0",)),
    ("OPT-22", "kv_dtype", "bf16", ("bf16", "fp8", "x@y"), ("",)),
    ("OPT-23", "spec", UNSET, ("mtp", "dflash", "dflash2"), ("",)),
    ("OPT-24", "draft_tokens", UNSET, ("1", "15"), ("0", "16")),
    ("OPT-25", "lm_head_draft", False, ("true",), ("maybe",)),
    ("OPT-26", "default_max_tokens", 8192, ("1",), ("0",)),
    ("OPT-27", "default_thinking_budget", UNSET, ("1", "4294967295"), ("0", "4294967296")),
    ("OPT-28", "vision", False, ("true", "false"), ("",)),
    ("OPT-29", "no_cuda_graph", False, ("1",), ("2",)),
    ("OPT-30", "no_prefix_reuse", False, ("on",), ("x",)),
    ("OPT-31", "device_state_slots", UNSET, ("0",), ("-1",)),
    ("OPT-32", "host_state_slots", UNSET, ("0",), ("-1",)),
    ("OPT-33", "host_kv_mib", UNSET, ("0",), ("-1",)),
    ("OPT-34", "max_private_continuations", UNSET, ("0",), ("-1",)),
    ("OPT-35", "max_shared_prefixes", UNSET, ("0",), ("-1",)),
    ("OPT-36", "max_long_anchors_per_continuation", UNSET, ("0",), ("-1",)),
    ("OPT-37", "no_thinking", False, ("yes",), ("x",)),
    ("OPT-38", "preserve_thinking", False, ("yes",), ("x",)),
    ("OPT-39", "tolerant_tool_calls", False, ("yes",), ("x",)),
    ("OPT-40", "cors", False, ("yes",), ("x",)),
    ("OPT-41", "temperature", UNSET, ("0", "2", "0.7"), ("-0.1", "2.1", "nan", "inf", "warm")),
    ("OPT-41", "top_p", UNSET, ("0", "1"), ("-0.1", "1.01")),
    ("OPT-41", "top_k", UNSET, ("0", "20"), ("-1", "21", "1.5")),
    ("OPT-41", "min_p", UNSET, ("0", "1"), ("-0.1", "1.01")),
    ("OPT-42", "presence_penalty", UNSET, ("-2", "2"), ("-2.1", "2.1")),
    ("OPT-42", "frequency_penalty", UNSET, ("-2", "2"), ("-2.1", "2.1")),
    (
        "OPT-43",
        "seed",
        UNSET,
        ("-9223372036854775808", "9223372036854775807"),
        ("9223372036854775808", "-9223372036854775809", "1e3"),
    ),
    ("OPT-44", "greedy", False, ("yes",), ("x",)),
]
BY_FIELD = pytest.mark.parametrize(
    ("line", "name", "default", "inside", "outside"), LINES, ids=[row[1] for row in LINES]
)


@pytest.mark.contract("OPT-47")
def test_every_contract_line_has_its_options() -> None:
    assert {row[0] for row in LINES} == {f"OPT-{number}" for number in range(1, 45)}
    own = {"artifact", "family", "protocols", "compat", "assume_device_memory", "allow_private_media", "scripted"}
    own |= {"weights", "kernels"}
    assert {row[1] for row in LINES} | own == set(option_infos())
    assert {name for name, info in option_infos().items() if not info.contract.startswith("OPT-")} == own


@pytest.mark.contract(*(f"OPT-{number}" for number in range(1, 45)))
@BY_FIELD
def test_line_default_and_edges(
    line: str, name: str, default: Any, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    assert option_infos()[name].contract == line
    assert option_defaults()[name] == default
    for written in inside:
        options = load_options({}, {variable_name(name): written})
        assert getattr(options, name) is not None
    for written in outside:
        with pytest.raises(PlanRejected) as caught:
            load_options({}, {variable_name(name): written})
        (problem,) = caught.value.problems
        assert problem.code == "option_invalid"
        assert problem.message.startswith(f"{variable_name(name)} ")
        assert flag_name(name) in problem.remedy


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kv_capacity", "max-context"),
        ("device_state_slots", "max-concurrency"),
        ("host_state_slots", "8"),
        ("host_kv_mib", "8192"),
        ("max_private_continuations", "2 * max-concurrency"),
        ("max_shared_prefixes", "max(max-concurrency, 4)"),
        ("max_long_anchors_per_continuation", "2"),
        ("log_stats_interval_ms", "5000"),
        ("media_cache_mib", "1024"),
        ("media_live_mib", "2048"),
        ("response_store_max_records", "1024"),
        ("response_store_max_mib", "256"),
        ("vision", "off"),
        ("port", "8080"),
    ],
)
def test_default_reads_as_the_contract_has_it(name: str, text: str) -> None:
    assert default_text(name) == text


def test_every_option_has_a_place_and_says_what_it_does() -> None:
    by_table = options_by_table()
    assert list(by_table) == list(TABLE_TITLES)
    assert sorted(name for names in by_table.values() for name in names) == sorted(option_infos())
    for name, info in option_infos().items():
        assert info.help.endswith("."), name
        assert default_text(name), name
        assert info.metavar or info.kind == "switch" or name == "artifact", name


@pytest.mark.contract("AUTH-1", "LOG-19")
def test_key_is_never_shown() -> None:
    options = ServeOptions(api_key=SecretText("hunter2"))
    assert "hunter2" not in repr(options)
    assert options.api_key is not None
    assert "hunter2" not in f"{options.api_key} {options.api_key!r}"
    assert options.api_key.reveal() == "hunter2"
    assert options.api_key == SecretText("hunter2") != SecretText("hunter3")
