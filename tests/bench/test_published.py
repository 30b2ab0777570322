"""What docs/bench.md says was measured is in a file of bench/results, whose check passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ninfer_core.bench.records import Run, load

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
FORMS = {"ms": (1e3, 2), "s": (1.0, 3)}
"""How a time is written: its unit, and the digits behind the point."""
TIME = re.compile(r"(\d+\.\d+) (ms|s)\b")
PASSED_OVER = "| start to ready"
"""Seconds of phases, added up."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load(sorted(RESULTS.rglob("engine-*.json")))


def tables() -> list[list[str]]:
    """Cells of every line of the tables below that heading."""
    lines = (ROOT / "docs" / "bench.md").read_text().split("## On one H200")[1].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and PASSED_OVER not in line]


def test_every_time_of_the_tables_is_a_figure(runs: list[Run]) -> None:
    seconds = [figure.seconds for run in runs for figure in run.figures]
    written = {f"{value * factor:.{digits}f} {unit}" for unit, (factor, digits) in FORMS.items() for value in seconds}
    # The table of drafts has medians over several figures of a run.
    written |= {" ".join(found) for found in TIME.findall((RESULTS / "speculation.txt").read_text())}
    claimed = {" ".join(found) for cells in tables() for found in TIME.findall(cells[1])}
    assert len(claimed) > 10
    assert claimed <= written, sorted(claimed - written)


def test_every_figure_has_a_check_that_passed(runs: list[Run]) -> None:
    for run in runs:
        passed = {check.name for check in run.checks if check.passed}
        assert {figure.check for figure in run.figures} <= passed, run.digest
