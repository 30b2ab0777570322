"""What docs/bench.md says was measured is in a file of bench/results, whose check passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ninfer_core.bench.campaign import Campaign, read_campaign
from ninfer_core.bench.goals import newest_runs, round_lines, step_lines
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


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return read_campaign(ROOT / "bench" / "campaign.toml")


@pytest.fixture(scope="module")
def newest(campaign: Campaign) -> dict[str, Run]:
    return newest_runs(RESULTS, campaign.row)


def tables() -> list[list[list[str]]]:
    """Of every table below that heading the cells of its lines, the headings first."""
    parts = re.split(r"\n\s*\n", (ROOT / "docs" / "bench.md").read_text().split("## On one H200")[1])
    lines = [
        [line for line in part.splitlines() if line.startswith("| ") and PASSED_OVER not in line] for part in parts
    ]
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in some] for some in lines if some]


def table_of(first_cell: str) -> list[list[str]]:
    """The lines of the table whose first heading begins so."""
    (found,) = (lines for lines in tables() if lines[0][0].startswith(first_cell))
    return found[1:]


def test_every_time_of_the_tables_is_a_figure(runs: list[Run], campaign: Campaign, newest: dict[str, Run]) -> None:
    seconds = [figure.seconds for run in runs for figure in run.figures]
    written = {f"{value * factor:.{digits}f} {unit}" for unit, (factor, digits) in FORMS.items() for value in seconds}
    # The table of rounds has medians over several figures of a run.
    written |= {line[1] for line in round_lines(campaign, newest)}
    claimed = {" ".join(found) for lines in tables() for cells in lines for found in TIME.findall(cells[1])}
    assert len(claimed) > 10
    assert claimed <= written, sorted(claimed - written)


def test_every_ratio_and_rate_is_of_the_results(campaign: Campaign, newest: dict[str, Run]) -> None:
    """Over somebody else's times, of rounds over steps, and tokens a second."""
    over = {cells[4] for cells in table_of("case")} - {""}
    assert over and over <= {line[5] for line in step_lines(campaign, newest)}
    rounds = round_lines(campaign, newest)
    ratios = {ratio for cells in table_of("round") for ratio in re.findall(r"\b\d\.\d{3}\b", " ".join(cells))}
    assert ratios and ratios <= {line[2].removesuffix("x") for line in rounds}
    paying = {found for cells in table_of("round") for found in re.findall(r"\b0\.\d\d\b", cells[-1])}
    assert paying and paying <= {line[4] for line in rounds}
    rates = [[cell.replace(",", "") for cell in cells[1:]] for cells in table_of("tokens a second")]
    known = [[*re.findall(r": (\d+)", line[6]), line[5]] for line in rounds]
    assert rates and [line for line in rates if line not in known] == []


def test_every_figure_has_a_check_that_passed(runs: list[Run]) -> None:
    for run in runs:
        passed = {check.name for check in run.checks if check.passed}
        assert {figure.check for figure in run.figures} <= passed, run.digest
