"""The runs with drafts ask for what the command knows, and their table reads them right."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ninfer_core.bench.records import Check, Figure, Machine, Run
from ninfer_core.bench.synthetic import expected_tokens
from ninfer_core.cli.bench import engine_command

PATH = Path(__file__).parents[2] / "bench" / "speculation.py"


@pytest.fixture(scope="module")
def speculation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_speculation", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_command_takes_every_run(speculation: ModuleType) -> None:
    for run in speculation.RUNS.values():
        given = engine_command.make_context("engine", shlex.split(run.words)).params
        assert given["spec"] in {"mtp", "dflash2"} and 1 in given["batches"] and 128 in given["contexts"]
        assert given["acceptances"][0] == 0.0 and given["acceptances"][-1] == 1.0


def decode(rows: int, seconds: float, tokens: float, acceptance: float | None = None) -> Figure:
    return Figure(
        case="decode",
        check="all",
        seconds=seconds,
        slow_seconds=seconds,
        samples=1,
        tokens=tokens,
        rows=rows,
        context_tokens=128,
        draft_tokens=0 if acceptance is None else 3,
        acceptance=acceptance,
    )


def run_of(*figures: Figure) -> Run:
    return Run(
        kind="engine",
        date="2026-01-01",
        digest="0123",
        model="some",
        machine=Machine(device="", torch="", triton="", driver="", python=""),
        figures=figures,
        checks=(Check(name="all", passed=True, values={}, limits={}),),
    )


def test_the_table_of_a_run(speculation: ModuleType) -> None:
    plain = run_of(decode(1, 0.0100, 1.0), decode(8, 0.0110, 8.0))
    drafted = run_of(decode(1, 0.0120, 1.0, 0.0), decode(1, 0.0120, 4.0, 1.0), decode(4, 0.0130, 16.0, 1.0))
    ((case, *line),) = speculation.rows_of("27b-bf16-mtp3", drafted, plain)
    assert case == "27b-bf16-mtp3, B=1"
    assert line == ["12.00 ms", "1.200x", "1.24x", "0.17", "100", "0: 83  1: 333", "0123"]


def test_where_drafting_begins_to_pay(speculation: ModuleType) -> None:
    assert expected_tokens(speculation.break_even(1.75, 2), 2) == pytest.approx(1.75)
    assert speculation.break_even(1.0, 3) == pytest.approx(0.0, abs=1e-9)
    assert speculation.break_even(4.5, 3) is None
