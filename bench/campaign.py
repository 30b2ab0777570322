"""Everything that the design's table of speeds asks of one GPU, one process for each model and form of weights:

    python bench/campaign.py [NAME...] [--list] [--plot] [--output FOLDER]

Each run is checked against `--kernels reference` on the same weights before it is written. Prints the table and, with
`--plot`, draws the picture of the campaign. NAMEs choose runs; none is all of them. The exit code is 1 when a check
failed; a goal that was missed is seen in the table.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ninfer_core.bench.records import Run, load
from ninfer_core.cli.table import table

RESULTS = Path(__file__).parent / "results"
ROWS = "--max-concurrency 8 --max-context 66048 --kv-capacity 528384 --prefill-chunk 8192"
DECODE = "--batches 1,4,8 --contexts 128,8k,64k"
PREFILL = "--prompts 1k,8k,32k --chunks 1k,8k"
REST = "--host-tokens 300 --mixes 200 --profile --roof"

CAMPAIGN = {
    "27b-bf16": f"dummy:qwen3.8-27b {ROWS} {DECODE} {PREFILL} {REST}",
    "27b-fp8": f"dummy:qwen3.8-27b --weights fp8 --kv-dtype fp8 {ROWS} {DECODE} {PREFILL} {REST}",
    "27b-nvfp4": f"dummy:qwen3.8-27b --weights nvfp4 --kv-dtype fp8 {ROWS} {DECODE} {PREFILL} {REST}",
    "35b-bf16": f"dummy:qwen3.6-35b-a3b {ROWS} {DECODE} {PREFILL} {REST}",
    "35b-fp8": f"dummy:qwen3.6-35b-a3b --weights fp8 --kv-dtype fp8 {ROWS} {DECODE} {PREFILL} {REST}",
}


class Goal(NamedTuple):
    """A row of the table, in seconds: `reach` is the design's bar, where it has one, `peer` what vLLM 0.25.1 needs."""

    run: str
    case: str
    rows: int
    tokens: int
    reach: float | None = None
    aim: float | None = None
    peer: float | None = None

    @property
    def title(self) -> str:
        what = f"step, B={self.rows}" if self.case == "decode" else f"prefill of {self.tokens} tokens"
        return f"{self.run}: {what}"


GOALS = (
    Goal("27b-bf16", "decode", 1, 128, 14.0e-3, 13.1e-3, 15.04e-3),
    Goal("27b-bf16", "decode", 8, 128, 14.6e-3, 13.6e-3, 15.72e-3),
    Goal("27b-fp8", "decode", 1, 128, 7.8e-3, 7.0e-3, 10.34e-3),
    Goal("27b-fp8", "decode", 8, 128, 8.4e-3, 7.5e-3, 10.95e-3),
    Goal("27b-nvfp4", "decode", 1, 128, 5.6e-3, 4.6e-3),
    Goal("27b-nvfp4", "decode", 8, 128),
    Goal("27b-bf16", "prefill", 1, 8192, 0.68, 0.62, 0.718),
    Goal("27b-fp8", "prefill", 1, 8192, 0.48, 0.44, 0.503),
    Goal("35b-bf16", "decode", 1, 128, 2.3e-3, 1.9e-3, 4.24e-3),
    Goal("35b-bf16", "decode", 8, 128, 5.8e-3, 5.0e-3, 7.73e-3),
    Goal("35b-bf16", "prefill", 1, 8192, 0.135, 0.11, 0.148),
    Goal("35b-fp8", "decode", 1, 128),
    Goal("35b-fp8", "decode", 8, 128),
    Goal("35b-fp8", "prefill", 1, 8192),
)
START_SECONDS = 25.0
HOST_SHARE = 0.03
ATTENTION_SHARE = 0.7


def run_all(names: Sequence[str], output: Path) -> bool:
    """Run the named parts one after the other; whether all of them passed."""
    passed = True
    for name in names:
        words = [sys.executable, "-m", "ninfer_core", "bench", "engine", *shlex.split(CAMPAIGN[name])]
        print(f"--- {name}", flush=True)
        passed &= subprocess.run([*words, "--output", str(output / name)], check=False).returncode == 0
    return passed


def rows_of(name: str, run: Run) -> list[tuple[str, ...]]:
    """The lines of the table that one run answers."""
    lines = []
    for goal in (goal for goal in GOALS if goal.run == name):
        length = "context_tokens" if goal.case == "decode" else "tokens"
        found = [
            figure
            for figure in run.figures
            if (figure.case, figure.rows, getattr(figure, length)) == (goal.case, goal.rows, goal.tokens)
        ]
        if found:
            best = min(found, key=lambda figure: figure.seconds)
            roof = "" if best.fraction is None else f"{best.fraction:.0%}"
            peer = "" if goal.peer is None else f"{goal.peer / best.seconds:.2f}x"
            lines.append((goal.title, _ms(best.seconds), _ms(goal.reach), _ms(goal.aim), roof, peer, run.digest))
        else:
            lines.append((goal.title, "no checked figure", _ms(goal.reach), _ms(goal.aim), "", "", run.digest))
    start = sum(run.start_seconds.values())
    lines.append((f"{name}: start", f"{start:.1f} s", f"{START_SECONDS:.0f} s", "12 s", "", "", run.digest))
    for figure in run.figures:
        if figure.host_share is not None:
            share = f"{figure.host_share:.1%}"
            title = f"{name}: host, B={figure.rows}"
            lines.append((title, share, f"{HOST_SHARE:.0%}", "1%", "", "", run.digest))
    return lines + [
        (
            f"{name}: attention at {tokens}, B={rows}",
            f"{share:.0%} of the copy rate",
            f"{ATTENTION_SHARE:.0%}",
            "",
            "",
            "",
            run.digest,
        )
        for rows, tokens, share in attention_shares(run)
    ]


def attention_shares(run: Run) -> list[tuple[int, int, float]]:
    """(rows, context, share of the copy rate) of what a longer context adds to a step: its keys and values, over the
    time that they add."""
    steps = {(figure.rows, figure.context_tokens): figure for figure in run.figures if figure.case == "decode"}
    shares = []
    for (rows, context), figure in steps.items():
        short = steps.get((rows, 128))
        if context >= 65536 and short is not None and figure.floor_seconds and short.floor_seconds:
            added = figure.floor_seconds - short.floor_seconds
            shares.append((rows, context, added / (figure.seconds - short.seconds)))
    return shares


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.2f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="show what there is and what it runs")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what was run before")
    parser.add_argument("--plot", action="store_true", help="draw FOLDER/campaign.png")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(CAMPAIGN))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(CAMPAIGN)}")
    names = arguments.names or list(CAMPAIGN)
    if arguments.list:
        print("\n".join(f"{name}: ninfer bench engine {CAMPAIGN[name]}" for name in names))
        return 0
    passed = arguments.table or run_all(names, arguments.output)
    paths = {name: sorted((arguments.output / name).glob("engine-*.json")) for name in names}
    runs = {name: load(found)[-1] for name, found in paths.items() if found}
    lines = [line for name, run in runs.items() for line in rows_of(name, run)]
    print(table(("CASE", "MEASURED", "REACH", "AIM", "OF ROOF", "OVER VLLM", "DIGEST"), lines))
    if arguments.plot and runs:
        from ninfer_core.bench.plot import draw

        draw(list(runs.values()), arguments.output / "campaign.png")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
