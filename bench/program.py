"""Seconds of prefill and of decode rounds of a program built from a plan: `make bench`, or

    python bench/program.py [ARTIFACT] [--prompt-tokens N] [--rounds N] [--save] [any option of `ninfer plan`]

No figure counts unless the tokens are right: every row of a batch must produce what it produces alone, and a prompt in
two chunks what it produces in one. When it does not, the exit code is 1 and nothing is saved.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
import torch

from ninfer_core.api.errors import StartupError
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.cli.table import table
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import Program, RowRound, RowSetup, Sampling

RESULTS = Path(__file__).parent / "results"
BATCHES = (1, 2, 4, 8)
UNCOUNTED_ROUNDS = 3
GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=1, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Medians. `rows` decode in one round; a round gives each of them one token."""

    phase: str
    rows: int
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class Runner:
    """Drives a program by hand, one row or several at a time."""

    def __init__(self, program: Program, plan: ExecutionPlan, prompt_tokens: int, rounds: int) -> None:
        self._program = program
        self._chunk = plan.capacities.prefill_chunk
        self._rounds = rounds
        generator = random.Random(plan.digest)
        domain = plan.token_domain
        self._prompts = [[generator.randrange(domain) for _ in range(prompt_tokens)] for _ in range(max(BATCHES))]

    def prefill(self, index: int, chunk: int) -> tuple[int, int, float]:
        """(row, first candidate, seconds) of prompt `index` in chunks of `chunk` tokens."""
        prompt = self._prompts[index]
        row = self._program.open_row(RowSetup(len(prompt), len(prompt) + self._rounds, GREEDY))
        assert row is not None, "the plan was made for this many rows"
        candidate = None
        begin = time.perf_counter()
        for first in range(0, len(prompt), chunk):
            part = prompt[first : first + chunk]
            candidate = self._program.prefill(row, part, last=first + chunk >= len(prompt))
        seconds = time.perf_counter() - begin
        assert candidate is not None
        return row, candidate, seconds

    def answers(self, indices: range, chunk: int | None = None) -> tuple[list[list[int]], list[float], list[float]]:
        """(tokens of each row, seconds of each prefill, seconds of each round) with all `indices` in one batch."""
        started = [self.prefill(index, chunk or self._chunk) for index in indices]
        rows = [row for row, _, _ in started]
        tokens = [[candidate] for _, candidate, _ in started]
        seconds = []
        for _ in range(self._rounds - 1):
            begin = time.perf_counter()
            candidates = self._program.decode([RowRound(row=row, accepted=1) for row in rows])
            seconds.append(time.perf_counter() - begin)
            for taken, offered in zip(tokens, candidates, strict=True):
                taken.append(offered[0])
        for row in rows:
            self._program.close_row(row)
        return tokens, [prefill for _, _, prefill in started], seconds


def measure(runner: Runner, prompt_tokens: int, batches: list[int]) -> tuple[list[Measurement], list[str]]:
    """(figures, what is wrong with the tokens)."""
    alone = [runner.answers(range(index, index + 1)) for index in range(max(batches))]
    truth = [tokens[0] for tokens, _, _ in alone]
    wrong = []
    if runner.answers(range(1), chunk=max(1, prompt_tokens // 2))[0] != truth[:1]:
        wrong.append("a prompt in two chunks gives other tokens than in one")
    prefill = statistics.median(seconds[0] for _, seconds, _ in alone)
    figures = [Measurement(phase="prefill", rows=1, tokens=prompt_tokens, seconds=prefill)]
    for batch in batches:
        tokens, _, seconds = runner.answers(range(batch))
        if tokens != truth[:batch]:
            wrong.append(f"{batch} rows together give other tokens than alone")
        median = statistics.median(seconds[UNCOUNTED_ROUNDS:])
        figures.append(Measurement(phase="decode", rows=batch, tokens=batch, seconds=median))
    return figures, wrong


def save(plan: ExecutionPlan, figures: list[Measurement], phases: dict[str, float]) -> Path:
    document: dict[str, Any] = {
        "digest": plan.digest,
        "plan": plan,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "start_seconds": phases,
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"program-{plan.identity.model_id}-{plan.digest}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


@click.command(cls=ServeCommand)
@serve_options
@click.option("--prompt-tokens", type=click.IntRange(2), default=256, show_default=True)
@click.option("--rounds", type=click.IntRange(8), default=32, show_default=True, help="Tokens that each row generates.")
@click.option("--save", "saved", is_flag=True, help="Write bench/results/program-MODEL-DIGEST.json.")
def main(options: ServeOptions, prompt_tokens: int, rounds: int, saved: bool) -> None:
    """Measure prefill and decode rounds of ARTIFACT, and check that the tokens are right."""
    registry = PluginRegistry.discover()
    prepared = prepare(options, registry)
    plan = prepared.plan
    phases: dict[str, float] = {}
    with prepared.artifact.open_weights() as weights:
        header, device = prepared.artifact.header, device_of(plan)
        program = build_program(plan, header, weights, registry, device, phases.__setitem__)
    batches = [batch for batch in BATCHES if batch <= plan.capacities.max_concurrency]
    figures, wrong = measure(Runner(program, plan, prompt_tokens, rounds), prompt_tokens, batches)
    program.close()
    print(f"plan {plan.digest}  {plan.identity.model_id}  {plan.device.name}  torch {torch.__version__}")
    print("start  " + "  ".join(f"{name} {seconds:.2f} s" for name, seconds in phases.items()))
    rows = [(f.phase, str(f.rows), f"{f.seconds * 1e3:.2f}", f"{f.tokens_per_second:.1f}") for f in figures]
    print(table(("PHASE", "ROWS", "MS", "TOKENS/S"), rows))
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    if saved:
        print(save(plan, figures, phases))


if __name__ == "__main__":
    try:
        main()
    except StartupError as error:
        sys.exit(f"{error.code}: {error.message}")
