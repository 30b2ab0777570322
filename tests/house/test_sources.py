"""What every source file keeps to: its size, and a few habits that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("ninfer_core", "plugins", "tools", "tests", "bench", "examples")
SOURCES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not {"build", "dist"} & set(path.relative_to(ROOT).parts)
)

HARD_LIMIT = 600
SOFT_LIMIT = 400
REASONS: dict[str, str] = {}
"""Files over the soft limit: path -> "YYYY-MM-DD: why it is one thing"."""

UNFINISHED = re.compile(r"#.*\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines(path: Path) -> int:
    return path.read_text().count("\n")


def test_there_are_sources() -> None:
    assert len(SOURCES) > 50


def test_no_file_is_over_the_hard_limit() -> None:
    assert [name(path) for path in SOURCES if lines(path) > HARD_LIMIT] == []


def test_a_file_over_the_soft_limit_has_a_dated_reason_and_no_other_file_has() -> None:
    assert {name(path) for path in SOURCES if lines(path) > SOFT_LIMIT} == set(REASONS)
    assert all(re.match(r"\d{4}-\d\d-\d\d: \S", reason) for reason in REASONS.values())


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_it_keeps_the_habits_of_the_house(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    if tree.body and not (len(tree.body) == 1 and ast.get_docstring(tree)):
        assert "from __future__ import annotations" in text
    assert [line for line in text.splitlines() if UNFINISHED.search(line)] == []
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)] == [], "state lives on objects"
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    assert [handler.lineno for handler in handlers if swallows_everything(handler)] == []


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    """A bare `except`, or one of Exception or BaseException that does nothing at all."""
    broad = isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    silent = all(isinstance(statement, ast.Pass) for statement in handler.body)
    return handler.type is None or (broad and silent)
