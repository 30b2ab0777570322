"""Every line of a plan's byte ledger against what the device reports, after prompts and full batches have run:

    python bench/device_ledger.py dummy:qwen3.8-27b [--save] [any option of `ninfer plan`]

Needs a CUDA device. The exit code is 1 when a line is off by more than 64 MiB.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

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
from ninfer_core.program.pools import allocate_pools

RESULTS = Path(__file__).parent / "results"
MIB = 1 << 20
ALLOWED_BYTES = 64 * MIB
ROUNDS = 24
GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=1, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """`reported_bytes` by the allocator for what it handed out, by the driver for what lies outside of it."""

    name: str
    planned_bytes: int
    reported_bytes: int

    @property
    def off_bytes(self) -> int:
        return self.reported_bytes - self.planned_bytes


def used_bytes(device: torch.device) -> int:
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def pool_bytes(plan: ExecutionPlan, device: torch.device) -> dict[str, int]:
    """Bytes that each pool line takes of the allocator, measured on pools allocated for this alone."""
    pools = allocate_pools(plan, device)
    row_tensors = (getattr(pools.rows, name) for name in pools.rows.__slots__)
    groups: dict[str, Iterable[torch.Tensor]] = {
        "kv_pages": pools.planes,
        "recurrent_state": pools.state.values(),
        "round_records": pools.records.values(),
        "row_buffers": row_tensors,
    }
    return {name: sum(tensor.untyped_storage().nbytes() for tensor in group) for name, group in groups.items()}


def exercise(program: Program, plan: ExecutionPlan) -> float:
    """Fill every row with a prompt of a whole chunk and decode them together; -> seconds of the median round."""
    capacities = plan.capacities
    generator = random.Random(0)
    room = capacities.kv_pages * capacities.page_tokens // capacities.max_concurrency
    prompt_tokens = min(capacities.prefill_chunk, room - ROUNDS)
    rows = []
    for _ in range(capacities.max_concurrency):
        row = program.open_row(RowSetup(prompt_tokens, prompt_tokens + ROUNDS, GREEDY))
        assert row is not None, "the plan was made for this many rows"
        prompt = [generator.randrange(plan.token_domain) for _ in range(prompt_tokens)]
        program.prefill(row, prompt, last=True)
        rows.append(row)
    seconds = []
    for _ in range(ROUNDS - 1):
        begin = time.perf_counter()
        candidates = program.decode([RowRound(row=row, accepted=1) for row in rows])
        seconds.append(time.perf_counter() - begin)
        assert all(0 <= token < plan.token_domain for each in candidates for token in each)
    return sorted(seconds)[len(seconds) // 2]


@click.command(cls=ServeCommand)
@serve_options
@click.option("--save", "saved", is_flag=True, help="Write bench/results/ledger-MODEL-DIGEST.json.")
def main(options: ServeOptions, saved: bool) -> None:
    """Hold the ledger of ARTIFACT's plan to the device."""
    registry = PluginRegistry.discover()
    prepared = prepare(options, registry)
    plan, header = prepared.plan, prepared.artifact.header
    device = device_of(plan)
    if device.type != "cuda":
        raise SystemExit("the plan is for the CPU, which reports no ledger; run this on a machine with a GPU")
    reported = pool_bytes(plan, device)
    torch.cuda.empty_cache()
    allocated: dict[str, int] = {}
    phases: dict[str, float] = {}

    def on_phase(name: str, seconds: float) -> None:
        phases[name] = seconds
        allocated[name] = torch.cuda.memory_allocated(device)

    with prepared.artifact.open_weights() as weights:
        program = build_program(plan, header, weights, registry, device, on_phase)
    round_seconds = exercise(program, plan)
    torch.cuda.synchronize()
    reserved = torch.cuda.memory_reserved(device)
    matrix_workspace = torch.cuda.memory_allocated(device) - allocated["pools"]
    reported |= {
        "device_context": used_bytes(device) - reserved + matrix_workspace,
        "weights": allocated["weights"],
        "workspace": reserved - torch.cuda.memory_allocated(device),
        "graph_allowance": 0,
    }
    lines = [
        Line(name=line.name, planned_bytes=line.bytes, reported_bytes=reported[line.name])
        for line in plan.ledger.lines
        if line.name != "headroom"
    ]
    show(plan, lines, phases, round_seconds)
    if saved:
        print(save(plan, lines, phases, round_seconds))
    program.close()
    if any(abs(line.off_bytes) > ALLOWED_BYTES for line in lines):
        sys.exit("a line is off by more than 64 MiB")


def show(plan: ExecutionPlan, lines: list[Line], phases: dict[str, float], round_seconds: float) -> None:
    print(f"plan {plan.digest}  {plan.identity.model_id}  {plan.device.name}  torch {torch.__version__}")
    print("start  " + "  ".join(f"{name} {seconds:.2f} s" for name, seconds in phases.items()))
    print(f"a round of {plan.capacities.max_concurrency} rows takes {round_seconds * 1e3:.1f} ms")
    rows = [
        (
            line.name,
            f"{line.planned_bytes / MIB:.1f}",
            f"{line.reported_bytes / MIB:.1f}",
            f"{line.off_bytes / MIB:+.1f}",
        )
        for line in lines
    ]
    print(table(("LINE", "PLANNED MIB", "REPORTED MIB", "OFF MIB"), rows))


def save(plan: ExecutionPlan, lines: list[Line], phases: dict[str, float], round_seconds: float) -> Path:
    document = {
        "digest": plan.digest,
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": plan.device.name,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "start_seconds": phases,
        "round_seconds": round_seconds,
        "lines": lines,
        "plan": plan,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"ledger-{plan.identity.model_id}-{plan.digest}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


if __name__ == "__main__":
    try:
        main()
    except StartupError as error:
        sys.exit(f"{error.code}: {error.message}")
