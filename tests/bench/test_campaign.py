"""The campaign asks for what the command knows, and its table reads runs right."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from ninfer_core.bench.records import Check, Figure, Machine, Run
from ninfer_core.cli.bench import engine_command

PATH = Path(__file__).parents[2] / "bench" / "campaign.py"


@pytest.fixture(scope="module")
def campaign() -> ModuleType:
    spec = importlib.util.spec_from_file_location("campaign", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_takes_every_run(campaign: ModuleType) -> None:
    for words in campaign.CAMPAIGN.values():
        given = engine_command.make_context("engine", shlex.split(words)).params
        assert given["artifact"].startswith("dummy:") and given["roof"] and 1 in given["batches"]


def test_every_goal_is_measured_by_its_run(campaign: ModuleType) -> None:
    for goal in campaign.GOALS:
        given = engine_command.make_context("engine", shlex.split(campaign.CAMPAIGN[goal.run])).params
        if goal.case == "decode":
            assert goal.rows in given["batches"] and goal.tokens in given["contexts"]
        else:
            assert goal.tokens in given["prompts"]


def figure(case: str, rows: int, context: int, tokens: int, seconds: float, floor: float) -> Figure:
    return Figure(
        case=case,
        check="all",
        seconds=seconds,
        slow_seconds=seconds,
        samples=1,
        tokens=tokens,
        rows=rows,
        context_tokens=context,
        floor_seconds=floor,
        host_share=0.01 if rows == 8 else None,
    )


def test_the_table_of_a_run(campaign: ModuleType) -> None:
    figures = (
        figure("decode", 1, 128, 1, 0.0140, 0.0119),
        figure("decode", 8, 128, 8, 0.0150, 0.0125),
        figure("decode", 8, 65536, 8, 0.0250, 0.0205),
        figure("prefill", 1, 0, 8192, 0.700, 0.54),
        figure("prefill", 1, 0, 8192, 0.600, 0.54),
    )
    run = Run(
        kind="engine",
        date="2026-01-01",
        digest="0123",
        model="some",
        machine=Machine(device="", torch="", triton="", driver="", python=""),
        figures=figures,
        checks=(Check(name="all", passed=True, values={}, limits={}),),
        start_seconds={"weights": 1.0, "kernels": 2.5},
    )
    rows = {row[0]: row[1:] for row in campaign.rows_of("27b-bf16", run)}
    assert rows["27b-bf16: step, B=1"] == ("14.00 ms", "14.00 ms", "13.10 ms", "85%", "1.07x", "0123")
    assert rows["27b-bf16: prefill of 8192 tokens"][0] == "600.00 ms"  # the best chunk
    assert rows["27b-bf16: start"][0] == "3.5 s"
    assert rows["27b-bf16: host, B=8"][0] == "1.0%"
    assert campaign.attention_shares(run) == [(8, 65536, pytest.approx(0.8))]  # 8 ms of reading in 10 ms more
    assert rows["27b-bf16: attention at 65536, B=8"][0] == "80% of the copy rate"
