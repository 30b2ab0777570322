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

FUNCTION_LIMIT = 40
"""Lines of a function, those of functions and classes within it not counted: they count for themselves."""
FUNCTION_REASONS: dict[str, str] = {
    "ninfer_core/ops/moe/kernels/choose.py:choose": (
        "2026-12-01: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/pairs.py:inner_pairs": (
        "2026-12-01: one kernel: loads stand in the order they are waited for"
    ),
    "ninfer_core/ops/moe/kernels/pairs.py:outer_pairs": (
        "2026-12-01: one kernel: loads stand in the order they are waited for"
    ),
    "tools/tiny_model/delta_kernel.py:delta_backward": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/paged_attention/kernels/tile.py:walk": (
        "2026-11-30: one loop of a kernel, a line for each argument"
    ),
    "ninfer_core/ops/paged_attention/kernels/decode.py:attend_splits": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/paged_attention/kernels/prefill.py:attend_chunk": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/paged_attention/kernels/prepare.py:prepare": (
        "2026-11-30: one kernel: three kinds of heads in one launch"
    ),
    "ninfer_core/ops/paged_attention/kernels/tile.py:tile": (
        "2026-11-30: one step of a kernel, a line for each argument"
    ),
    "ninfer_core/ops/paged_attention/launch.py:prepared": ("2026-11-30: one launch, a line for each argument"),
    "ninfer_core/ops/delta_mixer/kernels/chunks.py:convolve_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/delta_mixer/kernels/chunks.py:solve_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/delta_mixer/kernels/decode.py:decode_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/delta_mixer/kernels/sequence.py:read_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/delta_mixer/kernels/sequence.py:scan_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/few.py:inner_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/few.py:outer_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/few.py:route_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/many.py:grouped_inner_kernel": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/moe/kernels/product.py:product": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/sample/kernels/draw.py:draw": (
        "2026-11-30: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/kernels/groups.py:best_tokens": ("2026-12-01: one search, a line for each argument of its steps"),
    "ninfer_core/ops/accept/kernels/judge.py:judge": (
        "2026-12-01: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/block_attention/kernels/attend.py:attend_splits": (
        "2026-12-01: one kernel: what it keeps in registers cannot be handed on"
    ),
    "ninfer_core/ops/block_attention/kernels/store.py:store_columns": (
        "2026-12-01: one kernel, half of its lines its parameters"
    ),
    "ninfer_core/ops/block_attention/triton.py:attend": "2026-12-01: two launches, a line for each argument",
    "ninfer_core/ops/draft_walk/kernels/walk.py:candidates": "2026-12-01: one kernel, half of its lines its parameters",
    "ninfer_core/ops/draft_walk/triton.py:__call__": "2026-12-01: two launches, a line for each argument",
    "ninfer_core/ops/round_start/triton.py:start_round": "2026-12-01: one launch, a line for each argument",
    "ninfer_core/ops/round_start/triton.py:start_kernel": (
        "2026-11-30: one kernel, half of its lines its parameters; kernels are fused so that a round has few launches"
    ),
    "ninfer_core/testing/simulated_plan.py:simulated_plan": "2026-11-30: one constructor, a line for each field",
    "tests/models/frontend/renderer/test_tokens.py:test_cache_marks_have_frontiers_where_they_can": (
        "2026-11-30: one conversation and a table of every place in it"
    ),
    "tests/models/frontend/test_frontend.py:conversations": "2026-11-30: one strategy, a line for each part",
    "ninfer_core/ops/linear/few.py:linear_few_rows_pair": "2026-12-01: one launch, a line for each argument",
    "ninfer_core/ops/linear/kernels/share.py:multiply_share": "2026-11-30: one kernel; its parts share registers",
    "ninfer_core/ops/linear/kernels/few_rows.py:few_rows": "2026-12-01: one kernel, a line for each argument",
    "ninfer_core/ops/linear/kernels/few_rows.py:few_rows_pair": (
        "2026-12-01: one kernel, most of its lines its parameters"
    ),
}
"""Functions over the limit: path:name -> "YYYY-MM-DD: why it is one thing"."""

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


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def nested(node: ast.AST) -> list[Definition]:
    """The outermost definitions within a definition."""
    found: list[Definition] = []
    for child in ast.iter_child_nodes(node):
        found += [child] if isinstance(child, Definition) else nested(child)
    return found


def span(node: Definition) -> int:
    assert node.end_lineno is not None
    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
    return node.end_lineno - first + 1


def own_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1 - sum(map(span, nested(node)))


def test_a_function_over_the_limit_has_a_dated_reason_and_no_other_function_has() -> None:
    long = {
        f"{name(path)}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and own_lines(node) > FUNCTION_LIMIT
    }
    assert long == set(FUNCTION_REASONS)
    assert all(re.match(r"\d{4}-\d\d-\d\d: \S", reason) for reason in FUNCTION_REASONS.values())


def test_lines_of_inner_functions_count_for_themselves() -> None:
    inner = "".join(f"        x = {index}\n" for index in range(50))
    (outer,) = ast.parse(f"def outer():\n    @mark\n    def inner():\n{inner}    return inner\n").body
    assert isinstance(outer, ast.FunctionDef)
    assert (own_lines(outer), own_lines(nested(outer)[0])) == (2, 51)  # type: ignore[arg-type]


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
