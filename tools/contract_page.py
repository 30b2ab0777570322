"""docs/contract.md from the marks of the tests: every line of the serving contract, its tests, and who owes the rest.

`python tools/contract_page.py` rewrites the page in the repository that it stands in. Marks are read from the source of
the tests, so that nothing has to be installed or imported for it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contract.md"
LINES_FILE = ROOT / "tests" / "house" / "contract_lines.txt"

TITLES = {
    "GEN": "Process and endpoints",
    "CHAT": "Chat Completions",
    "TMPL": "Template, effort, thinking",
    "TOOL": "Tool calls in the output",
    "OBS": "Timings and progress",
    "MEDIA": "Images and video",
    "PCACHE": "OpenAI's cache hints",
    "RESP": "Responses",
    "ANTH": "Anthropic Messages",
    "AUTH": "Keys and browsers",
    "ERR": "Errors",
    "OPT": "Options",
    "OLOG": "Operational log",
    "LOG": "Request log",
    "EXEC": "Execution",
    "NEW": "Optional features",
    "IMPL": "Details",
}

HEAD = """\
# The serving contract and its tests

Written by `make contract` from the marks of the tests (`@pytest.mark.contract("GEN-3")`) and from
[contract_lines.txt](../tests/house/contract_lines.txt), which has each line in short. A line has tests, or says who
owes it; with both, the tests cover what is built and the rest is owed.

{tested} of {total} lines have tests; {owed} are owed, in part or whole.
"""


class ContractLine(NamedTuple):
    """`owner` is empty where nothing more is owed."""

    id: str
    title: str
    owner: str

    @property
    def group(self) -> str:
        return self.id.partition("-")[0]


class Test(NamedTuple):
    """`path` is relative to the repository."""

    path: str
    name: str


def contract_lines() -> list[ContractLine]:
    """In the order of the file. Raises ValueError for a line that is not `id | title` or `id | title | owner`."""
    lines = []
    for text in LINES_FILE.read_text().splitlines():
        if text.startswith("#"):
            continue
        cells = [cell.strip() for cell in text.split("|")]
        if not 2 <= len(cells) <= 3 or not all(cells):
            raise ValueError(f"{LINES_FILE.name}: {text!r} is not `id | title | owner`")
        lines.append(ContractLine(cells[0], cells[1], cells[2] if len(cells) == 3 else ""))
    return lines


def marked_tests() -> dict[str, list[Test]]:
    """Tests by contract line, in the order of their paths."""
    found: dict[str, list[Test]] = defaultdict(list)
    for path in sorted([*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("examples/**/test_*.py")]):
        tree = ast.parse(path.read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                ids = {line for decorator in function.decorator_list for line in _marks(decorator)}
                for line in ids:
                    found[line].append(Test(path.relative_to(ROOT).as_posix(), function.name))
    return found


def _marks(decorator: ast.expr) -> Iterator[str]:
    """Ids of every `pytest.mark.contract(...)` in a decorator, those of single parameters included."""
    for node in ast.walk(decorator):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.contract":
            for argument in node.args:
                yield from _ids(argument)


def _ids(argument: ast.expr) -> list[str]:
    """A literal, or `*(... for ... in range(...))`, which stands for many."""
    expression = argument.value if isinstance(argument, ast.Starred) else argument
    value = eval(compile(ast.Expression(expression), "<mark>", "eval"), {"__builtins__": {"range": range}})
    return [value] if isinstance(value, str) else list(value)


def contract_page() -> str:
    lines, tests = contract_lines(), marked_tests()
    tested = sum(line.id in tests for line in lines)
    owed = sum(bool(line.owner) and not line.owner.startswith("nothing owed") for line in lines)
    parts = [HEAD.format(tested=tested, total=len(lines), owed=owed)]
    group = ""
    for line in lines:
        if line.group != group:
            group = line.group
            parts.append(f"\n## {group}: {TITLES[group]}\n\n| line | what | tests | owed by |\n|---|---|---|---|\n")
        parts.append(f"| {line.id} | {_escaped(line.title)} | {_cell(tests.get(line.id, []))} | {line.owner} |\n")
    return "".join(parts)


def _cell(tests: list[Test]) -> str:
    by_path: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_path[test.path].append(test.name.removeprefix("test_"))
    return "; ".join(
        f"[{re.sub(r'^test_|[.]py$', '', Path(path).name)}](../{path}): {', '.join(sorted(set(names)))}"
        for path, names in by_path.items()
    )


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("_", r"\_")


if __name__ == "__main__":
    PAGE.write_text(contract_page())
