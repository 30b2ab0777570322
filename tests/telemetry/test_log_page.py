"""The page on the log names every record that is written, and every field of the throughput record."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ninfer_core.api.service import Speculation
from ninfer_core.engine.messages import Throughput
from ninfer_core.serving.throughput import throughput_fields
from ninfer_core.telemetry import LEVELS

ROOT = Path(__file__).parents[2]
RECORDS, _, THROUGHPUT = (ROOT / "docs" / "log.md").read_text().partition("\n## Throughput\n")
BY_LIBRARY_RULES = {"ninfer_core/program/workspace.py"}
"""Modules below the engine, which log by the standard library: their records are `library_message`."""


def first_cells(section: str) -> set[str]:
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}


def written_events() -> set[str]:
    events = set()
    for path in (ROOT / "ninfer_core").rglob("*.py"):
        if path.relative_to(ROOT).as_posix() in BY_LIBRARY_RULES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in {*LEVELS, "log"} and ast.unparse(node.func.value).endswith("log"):
                name = node.args[1 if node.func.attr == "log" else 0]
                assert isinstance(name, ast.Constant), f"{path}: an event that is not a literal"
                events.add(str(name.value))
    return events


def test_every_record_is_named_and_no_other() -> None:
    assert first_cells(RECORDS) == written_events()


def test_every_field_of_the_throughput_record_is_named() -> None:
    interval = Throughput(
        seconds=1.0,
        prefill_tokens=1,
        decode_tokens=1,
        decode_rounds=1,
        decode_rows=1,
        speculation=Speculation(
            rounds=1, drafted_tokens=1, accepted_tokens=1, fallback_steps=1, accepted_per_position=(1,)
        ),
        host_seconds=1.0,
        prefilling=1,
        decode_ready=1,
        waiting=1,
    )
    assert first_cells(THROUGHPUT) == set(throughput_fields(interval))
