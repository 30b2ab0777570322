"""Which lanes hold what the decode kernel of the mixer sums: Triton 3.6 is right only where they are neighbours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

WIDTHS = (16, 32, 64, 128)
LEAST_SUMS = 6
"""Of query and key, over the two axes that keys lie on, twice, and of what is read."""


def lanes_along(axis: int, layout: str) -> list[int]:
    """The bits of a lane's number that tell places along `axis` apart. Only a layout in the linear form may leave some
    out between them: a blocked one, and what is sliced of it, counts the lanes of an axis through."""
    if not (linear := re.match(r"#ttg\.linear<\{.*?lane = (\[.*?\]), warp = ", layout)):
        assert re.match(r"#ttg\.(slice|blocked)<", layout), f"nothing is known of {layout}"
        return []
    return [bit for bit, step in enumerate(json.loads(linear[1])) if step[axis]]


def test_lanes_that_lie_apart_are_seen() -> None:
    """The layout that Triton 3.6 summed wrongly: it exchanged with lanes 1, 2 and 4 apart."""
    apart = "#ttg.linear<{register = [[1], [2]], lane = [[4], [0], [0], [8], [16]], warp = [[0], [0]], block = []}>"
    assert lanes_along(0, apart) == [0, 3, 4]


@pytest.mark.long
def test_lanes_that_hold_a_sum_are_neighbours(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    script = Path(__file__).with_name("mixer_layouts.py")
    command = [sys.executable, str(script), *map(str, WIDTHS)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    for width, sums in zip(WIDTHS, json.loads(run.stdout), strict=True):
        assert len(sums) >= LEAST_SUMS, f"sums of heads of {width} are written in another way"
        for axis, layout in sums:
            lanes = lanes_along(axis, layout)
            assert not lanes or lanes[-1] - lanes[0] == len(lanes) - 1, f"heads of {width} are summed over {layout}"
