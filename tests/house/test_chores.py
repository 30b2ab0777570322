"""The named chores exist, and what they install is pinned."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_chore_that_is_named_is_a_target(page: str) -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", (ROOT / page).read_text()))
    assert named and named <= TARGETS


def test_every_target_makes_its_own_environment() -> None:
    for target in TARGETS - {"clean"}:
        assert re.search(rf"^{target}: \$\(READY\)", MAKEFILE, re.MULTILINE), target


def test_everything_that_is_asked_for_is_pinned_to_one_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins.values())
    for project in [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]:
        table = tomllib.loads(project.read_text())["project"]
        extras = [asked for extra in table.get("optional-dependencies", {}).values() for asked in extra]
        for asked in [*table["dependencies"], *extras]:
            name = re.split(r"[<>=!;\[ ]", asked)[0]
            if not name.startswith("ninfer"):
                assert normalized(name) in {normalized(pin) for pin in pins}, asked


def test_what_ci_runs_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
