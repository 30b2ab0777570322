"""What several parts of the core need is written once, and the others import it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("ninfer_core", "plugins") for path in (ROOT / folder).rglob("*.py")]


def defined(path: Path) -> set[str]:
    """Names that a module gives a value of its own, at the top level: literals, types and functions, not imports."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("pages_for", "ninfer_core/plan/memory.py"),
        ("OnPhase", "ninfer_core/program/contract.py"),
        ("TOP_K_CAP", "ninfer_core/api/request.py"),
        ("EFFORTS", "ninfer_core/api/efforts.py"),
        ("Kernels", "ninfer_core/api/geometry.py"),
        ("ordered_bits", "ninfer_core/ops/kernels/order.py"),
        ("DRAFT_CONFIG", "ninfer_core/api/artifact.py"),
        ("DRAFT_PREFIX", "ninfer_core/api/artifact.py"),
        ("DRAFT_GROUP", "ninfer_core/api/artifact.py"),
        ("CHOICES", "ninfer_core/ops/workspace/draft_walk.py"),
        ("DECODE_ROWS", "ninfer_core/ops/workspace/linear.py"),
        ("CHUNK_COLUMNS", "ninfer_core/ops/workspace/gated_delta.py"),
        ("DECODE_SPLIT_TOKENS", "ninfer_core/ops/workspace/paged_attention.py"),
        ("PREFILL_SPLIT_TOKENS", "ninfer_core/ops/workspace/paged_attention.py"),
    ],
)
def test_it_has_one_home(name: str, home: str) -> None:
    assert [path.relative_to(ROOT).as_posix() for path in SOURCES if name in defined(path)] == [home]


DEPENDENT = "ninfer_core/ops/kernels/dependent.py"
"""Where the rule stands that launches which begin early keep."""


def test_the_rule_of_dependent_launches_has_one_home() -> None:
    """Who calls the instructions himself has read no rule."""
    using = [path.relative_to(ROOT).as_posix() for path in SOURCES if "extra.cuda" in path.read_text()]
    assert using == [DEPENDENT]


def called(path: Path) -> set[str]:
    """Names of the functions that a module calls."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_kernels_that_may_begin_early_wait() -> None:
    others = [path for path in SOURCES if path != ROOT / DEPENDENT]
    taking = [path for path in others if "DEPENDENT: tl.constexpr" in path.read_text()]
    assert len(taking) > 5
    waiting = {"wait_for_launches", "follow", "multiply_share"}  # the last one calls the first
    assert [path for path in taking if not called(path) & waiting] == []


def test_the_cap_of_the_sampler_is_nowhere_a_number() -> None:
    """Every range and cap of `top_k` reads the one constant."""
    from ninfer_protocols.anthropic.lowering import RANGES as MESSAGES
    from ninfer_protocols.openai_chat.lowering import RANGES as CHAT

    from ninfer_core.api import TOP_K_CAP
    from ninfer_core.ops.sample import CANDIDATES
    from ninfer_core.plan.options import option_infos

    assert CHAT["top_k"] == MESSAGES["top_k"] == (0, TOP_K_CAP)
    assert option_infos()["top_k"].maximum == CANDIDATES == TOP_K_CAP
