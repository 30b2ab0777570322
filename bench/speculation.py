"""What drafting costs and when it pays, at the shapes of the campaign:

    python bench/speculation.py [NAME...] [--list] [--table] [--output FOLDER]

Rounds are timed at acceptances that are asked for, since dummy weights agree with no drafter; each run is checked
against `--kernels reference` before it is written. Prints, for every number of rows, the time of a round over that of a
step of the campaign's own run, the acceptance at which both give as many tokens a second, and tokens a second at each
acceptance; the table is written beside the runs too. NAMEs choose runs; none is all of them. The exit code is 1 when a
check failed.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ninfer_core.bench.records import Figure, Run, load
from ninfer_core.bench.synthetic import expected_tokens
from ninfer_core.cli.table import table

RESULTS = Path(__file__).parent / "results"
TABLE = "speculation.txt"
CONTEXT = 128
SIZES = "--max-concurrency 8 --max-context 2048 --kv-capacity 16384"
CASES = "--batches 1,4,8 --contexts 128 --prompts 1k --chunks 1k --rounds 16"
ACCEPTANCES = "--synthetic-acceptance 0,0.5,0.7,0.8,0.9,1"
MODEL = f"dummy:qwen3.8-27b {SIZES} {CASES}"
FP8 = "--weights fp8 --kv-dtype fp8"


class Drafted(NamedTuple):
    """A run, the campaign's run of the same model without drafts, and the most that a round of one row may be of a
    step."""

    words: str
    step: str
    reach: float


RUNS = {
    "27b-bf16-mtp3": Drafted(f"{MODEL} --spec mtp --draft-tokens 3 {ACCEPTANCES}", "27b-bf16", 1.24),
    "27b-fp8-mtp3": Drafted(
        f"{MODEL} {FP8} --spec mtp --draft-tokens 3 --lm-head-draft {ACCEPTANCES}", "27b-fp8", 1.22
    ),
    "27b-fp8-dflash2": Drafted(f"{MODEL} {FP8} --spec dflash2 --draft-tokens 7 {ACCEPTANCES}", "27b-fp8", 1.35),
}


def run_all(names: Sequence[str], output: Path) -> bool:
    """Run the named parts one after the other; whether all of them passed."""
    passed = True
    for name in names:
        words = [sys.executable, "-m", "ninfer_core", "bench", "engine", *shlex.split(RUNS[name].words)]
        print(f"--- {name}", flush=True)
        passed &= subprocess.run([*words, "--output", str(output / name)], check=False).returncode == 0
    return passed


def break_even(ratio: float, draft_tokens: int) -> float | None:
    """The acceptance at which a round that takes `ratio` steps gives as many tokens a second; None where none does."""
    if ratio > 1 + draft_tokens:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, draft_tokens) >= ratio else (middle, high)
    return high


def rows_of(name: str, drafted: Run, plain: Run) -> list[tuple[str, ...]]:
    """A line for each number of rows that both runs have."""
    lines = []
    for rows in sorted({figure.rows for figure in _decodes(drafted)}):
        rounds = [figure for figure in _decodes(drafted) if figure.rows == rows]
        steps = [figure for figure in _decodes(plain) if figure.rows == rows]
        if not steps:
            continue
        round_seconds, step = statistics.median(figure.seconds for figure in rounds), steps[0]
        ratio = round_seconds / step.seconds
        even = break_even(ratio, rounds[0].draft_tokens)
        # By what an acceptance gives in the mean: two dozen rounds of one seed are a poor estimate of it.
        rates = "  ".join(f"{figure.acceptance:g}: {_rate(figure, rows, round_seconds):.0f}" for figure in rounds)
        reach = f"{RUNS[name].reach:.2f}x" if rows == 1 else ""
        paying = "never" if even is None else f"{even:.2f}"
        times = f"{round_seconds * 1e3:.2f} ms", f"{ratio:.3f}x", reach, paying
        lines.append((f"{name}, B={rows}", *times, f"{step.tokens_per_second:.0f}", rates, drafted.digest))
    return lines


def _rate(figure: Figure, rows: int, round_seconds: float) -> float:
    """Tokens a second of all rows at the figure's acceptance."""
    assert figure.acceptance is not None, "only rounds with drafts have an acceptance"
    return rows * expected_tokens(figure.acceptance, figure.draft_tokens) / round_seconds


def _decodes(run: Run) -> list[Figure]:
    return [figure for figure in run.figures if figure.case == "decode" and figure.context_tokens == CONTEXT]


HEADINGS = ("CASE", "ROUND", "OF A STEP", "REACH", "PAYS FROM", "WITHOUT", "TOKENS/S AT ACCEPTANCE", "DIGEST")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="show what there is and what it runs")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what was run before")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(RUNS)):
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(RUNS)}")
    names = arguments.names or list(RUNS)
    if arguments.list:
        print("\n".join(f"{name}: ninfer bench engine {RUNS[name].words}" for name in names))
        return 0
    passed = arguments.table or run_all(names, arguments.output)
    lines = []
    for name in names:
        found = [sorted((arguments.output / each).glob("engine-*.json")) for each in (name, RUNS[name].step)]
        if all(found):
            drafted, plain = (load(paths)[-1] for paths in found)
            lines.extend(rows_of(name, drafted, plain))
    written = table(HEADINGS, lines)
    print(written)
    if lines:
        (arguments.output / TABLE).write_text(written + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
