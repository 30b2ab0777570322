"""Context, pages and rows: the contract's rules, the automatic choice against counting, the advice against trying."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.api.geometry import AttentionGeometry, BuildShape, Geometry, StateArray
from ninfer_core.api.kv import KVLayout, KVPlane
from ninfer_core.api.plan import Capacities, DeviceInfo
from ninfer_core.plan.capacities import fitted_capacities, wanted_capacities
from ninfer_core.plan.memory import page_bytes
from ninfer_core.plan.option_sources import load_options
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.sizing import Sizing, largest_that

GIB = 2**30
GEOMETRY = Geometry(
    hidden_size=64,
    layers=8,
    vocabulary_rows=1000,
    max_positions=32768,
    attention=AttentionGeometry(layers=2, query_heads=4, kv_heads=2, head_dim=64),
    state=(StateArray(name="recurrent", layers=6, shape=(64, 128), dtype="float32"),),
    records=(StateArray(name="key", layers=6, shape=(64,), dtype="float32"),),
)
LAYOUT = KVLayout(
    planes=(
        KVPlane(part="key", name="codes", dtype="bfloat16", elements=64),
        KVPlane(part="value", name="codes", dtype="int8", elements=64),
        KVPlane(part="value", name="scale", dtype="float16", elements=1),
    )
)


def workspace(shape: BuildShape) -> int:
    return shape.prefill_tokens * 100_000 + shape.decode_rows * 1_000_000 + shape.max_context * 64


def make_sizing(memory_bytes: int, capability: str | None = None) -> Sizing:
    device = DeviceInfo(
        kind="cuda" if capability else "cpu",
        index=0,
        name="device",
        memory_bytes=memory_bytes,
        compute_capability=capability,
    )
    return Sizing(
        device=device,
        geometry=GEOMETRY,
        layout=LAYOUT,
        activation_dtype="bfloat16",
        resident=lambda groups: (),
        workspace=workspace,
    )


def resolve(options: ServeOptions, sizing: Sizing) -> Capacities:
    return fitted_capacities(options, sizing, wanted_capacities(options, sizing.geometry))


def problem_of(options: ServeOptions, sizing: Sizing | None = None) -> Problem:
    with pytest.raises(PlanRejected) as caught:
        resolve(options, sizing or make_sizing(64 * GIB))
    (problem,) = caught.value.problems
    return problem


@pytest.mark.contract("OPT-5", "OPT-6")
def test_defaults() -> None:
    capacities = resolve(ServeOptions(), make_sizing(64 * GIB))
    assert (capacities.max_context, capacities.kv_pages, capacities.state_slots) == (8192, 128, 1)
    assert (capacities.draft_tokens, capacities.prefill_chunk, capacities.page_tokens) == (0, 1024, 64)
    small = msgspec.structs.replace(GEOMETRY, max_positions=2048)
    assert wanted_capacities(ServeOptions(), small).max_context == 2048


def test_what_attention_takes_for_a_format_is_planned() -> None:
    """A prefill by kernels unpacks a narrow format; without device functions attention is the reference."""
    codes, values = (
        tuple(KVPlane(part=part, name="codes", dtype=dtype, elements=64) for part in ("key", "value"))
        for dtype in ("int8", "bfloat16")
    )
    narrow, wide = (KVLayout(planes=planes, device_functions=True) for planes in (codes, values))
    capacities = resolve(ServeOptions(max_context=1000), make_sizing(64 * GIB))

    def workspace_of(sizing: Sizing) -> int:
        (line,) = [line for line in sizing.lines(capacities) if line.name == "workspace"]
        return line.bytes

    on_cuda = dataclasses.replace(make_sizing(64 * GIB, "9.0"), layout=narrow)
    model = workspace_of(dataclasses.replace(on_cuda, layout=wide))
    attention = GEOMETRY.attention
    unpacked = 2 * 1024 * attention.kv_heads * attention.head_dim * 2  # 16 whole pages, bfloat16
    assert workspace_of(on_cuda) == model + unpacked
    assert workspace_of(dataclasses.replace(on_cuda, kernels="reference")) == model
    assert workspace_of(dataclasses.replace(make_sizing(64 * GIB), layout=narrow)) == model
    scores = capacities.prefill_chunk * attention.query_heads * 512 * 4
    assert workspace_of(dataclasses.replace(on_cuda, layout=KVLayout(planes=codes))) > model + scores


@pytest.mark.contract("OPT-5")
def test_context_beyond_the_model() -> None:
    assert resolve(ServeOptions(max_context=32768), make_sizing(64 * GIB)).max_context == 32768
    problem = problem_of(ServeOptions(max_context=32769))
    assert problem.code == "context_too_large"
    assert "32768 is the most" in problem.remedy


@pytest.mark.contract("OPT-6", "EXEC-7")
@pytest.mark.parametrize(
    ("options", "pages"),
    [
        ({"max_context": 64}, 1),
        ({"max_context": 65}, 2),
        ({"max_context": 64, "max_concurrency": 8}, 8),
        ({"max_context": 1000, "kv_capacity": 1000}, 16),
        ({"max_context": 1000, "kv_capacity": 1025, "max_concurrency": 2}, 17),
        ({"max_context": 1000, "kv_capacity": 2048, "max_concurrency": 2}, 32),
    ],
)
def test_pages(options: dict[str, Any], pages: int) -> None:
    assert resolve(ServeOptions(**options), make_sizing(64 * GIB)).kv_pages == pages


@pytest.mark.contract("OPT-6")
@pytest.mark.parametrize(
    ("options", "code", "remedy"),
    [
        ({"kv_capacity": 4096}, "kv_capacity_too_small", "--kv-capacity 8192 or more, --max-context 4096"),
        ({"max_context": 1000, "kv_capacity": 999}, "kv_capacity_too_small", "--kv-capacity 1000 or more"),
        (
            {"max_context": 64, "kv_capacity": 128, "max_concurrency": 4},
            "kv_capacity_too_small",
            "--kv-capacity 256 or more",
        ),
        ({"max_context": 1000, "kv_capacity": 1025}, "kv_capacity_too_large", "--kv-capacity 1024 or less"),
    ],
)
def test_pages_that_cannot_be(options: dict[str, Any], code: str, remedy: str) -> None:
    problem = problem_of(ServeOptions(**options))
    assert problem.code == code
    assert remedy in problem.remedy


def test_all_capacity_problems_together() -> None:
    with pytest.raises(PlanRejected) as caught:
        wanted_capacities(ServeOptions(max_context=40000, kv_capacity=100), GEOMETRY)
    assert [problem.code for problem in caught.value.problems] == ["context_too_large", "kv_capacity_too_small"]


@pytest.mark.contract("OPT-10")
def test_prefill_unit_is_never_longer_than_the_context() -> None:
    assert resolve(ServeOptions(max_context=100), make_sizing(64 * GIB)).prefill_chunk == 100
    assert resolve(ServeOptions(prefill_chunk=128), make_sizing(64 * GIB)).prefill_chunk == 128


@pytest.mark.contract("EXEC-23", "OPT-6")
@given(
    memory_bytes=st.integers(min_value=GIB, max_value=3 * GIB),
    max_context=st.integers(min_value=1, max_value=32768),
    rows=st.integers(min_value=1, max_value=8),
)
@settings(max_examples=150, deadline=None)
def test_automatic_pages_against_counting(memory_bytes: int, max_context: int, rows: int) -> None:
    options = ServeOptions(kv_capacity="auto", max_context=max_context, max_concurrency=rows)
    sizing = make_sizing(memory_bytes, "9.0")
    wanted = wanted_capacities(options, GEOMETRY)
    least, most = max(-(-max_context // 64), rows), rows * -(-max_context // 64)
    fitting = [
        pages
        for pages in range(least, most + 1)
        if sizing.bytes(msgspec.structs.replace(wanted, kv_pages=pages)) + GIB <= memory_bytes
    ]
    if fitting:
        assert fitted_capacities(options, sizing, wanted).kv_pages == fitting[-1]
    else:
        assert problem_of(options, sizing).code == "memory_exceeded"


def test_automatic_pages_leave_a_gibibyte_and_no_room_for_another_page() -> None:
    options = ServeOptions(kv_capacity="auto", max_context=32768, max_concurrency=8)
    sizing = make_sizing(2 * GIB - 100_000_000, "9.0")
    capacities = resolve(options, sizing)
    left = sizing.ledger(capacities).line("headroom").bytes
    assert GIB <= left < GIB + page_bytes(GEOMETRY, LAYOUT)


@pytest.mark.parametrize(
    "given",
    [
        {"max_context": "32768", "max_concurrency": "8", "kv_capacity": "auto"},
        {"max_context": "32768", "max_concurrency": "8", "kv_capacity": "200000"},
        {"max_context": "32768", "max_concurrency": "8", "prefill_chunk": "4096"},
    ],
)
@pytest.mark.parametrize("spare", [0, 8_000_000, 40_000_000, 90_000_000])
def test_advice_fits_and_nothing_larger_does(given: dict[str, str], spare: int) -> None:
    """Memory between what the smallest plan takes and what was asked for; every piece of advice is tried out."""
    smallest = make_sizing(0).bytes(
        wanted_capacities(ServeOptions(max_context=1, prefill_chunk=128, max_concurrency=1), GEOMETRY)
    )
    headroom = GIB if given.get("kv_capacity") == "auto" else 0
    sizing = make_sizing(smallest + spare + headroom)
    options = load_options(dict(given), {})
    problem = problem_of(options, sizing)
    assert problem.code == "memory_exceeded"
    assert "kv_pages" in problem.message
    pieces = re.findall(r"((?:--[a-z-]+ \d+ )+)\(frees", problem.remedy)
    for piece in pieces:
        changes = {flag[2:].replace("-", "_"): value for flag, value in re.findall(r"(--[a-z-]+) (\d+)", piece)}
        resolve(load_options({**given, **changes}, {}), sizing)
        if set(changes) == {"max_context"}:
            larger = {"max_context": str(int(changes["max_context"]) + 1)}
            assert problem_of(load_options({**given, **larger}, {}), sizing).code == "memory_exceeded"
    assert pieces or "the smallest capacities take" in problem.remedy


def test_nothing_fits() -> None:
    problem = problem_of(ServeOptions(), make_sizing(1_000_000))
    assert "the smallest capacities take" in problem.remedy
    assert "--assume-device-memory" in problem.remedy


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 7), st.integers(-5, 250))
def test_largest_that_against_trying_all(low: int, high: int, step: int, limit: int) -> None:
    fitting = [value for value in range(low, high + 1, step) if value <= limit]
    assert largest_that(lambda value: value <= limit, low, high, step) == (fitting[-1] if fitting else None)
