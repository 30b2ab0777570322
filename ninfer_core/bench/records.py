"""Results as values and as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ninfer_core.api.errors import NinferError, StartFailed
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.service import Speculation


class BenchFailed(NinferError):
    """What was measured is not right."""

    code = "bench_failed"

    def __init__(self, checks: Sequence[str]) -> None:
        super().__init__(f"checks failed: {', '.join(checks)}; the figures that they cover were not written")
        self.checks = tuple(checks)


class CampaignFailed(BenchFailed):
    """Rows of a campaign were begun and did not pass."""

    def __init__(self, rows: Sequence[str]) -> None:
        NinferError.__init__(self, f"rows did not pass: {', '.join(rows)}; the table says why, log.txt what they said")
        self.checks = ()


@dataclass(frozen=True, slots=True)
class EngineCases:
    """What is asked of `ninfer bench engine`. Cases that a plan has no room for are left out, with a remark.

    `mixes` of batch invariance and `host_tokens` of the engine's own meter may be 0: then they are left out. Rounds
    with drafts are timed once for each of `acceptances`, probabilities that a draft is kept; without, by what the
    model says.
    """

    batches: tuple[int, ...]
    context_tokens: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    chunk_tokens: tuple[int, ...]
    rounds: int = 32
    prefills: int = 3
    mixes: int = 0
    host_tokens: int = 0
    roof: bool = False
    profiled: bool = False
    acceptances: tuple[float, ...] = ()


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Whether what was measured is right. `values` are what was found, `limits` what was allowed, by the same names:
    an `error` may be that large, an `agreement` must be that large."""

    name: str
    passed: bool
    values: dict[str, float]
    limits: dict[str, float]
    remark: str = ""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number. `seconds` is the median of `samples`, `slow_seconds` their 90th percentile.

    `rows` run together over contexts of `context_tokens`; `tokens` is what they gain in `seconds`. `floor_seconds` is
    what the bytes or the operations of the case cost at the rates of the roof. `check` names the check that covers it.
    Of rounds with `draft_tokens` drafts, each was kept with probability `acceptance`, or as the model says for None;
    `speculation` counts what became of them.
    """

    case: str
    check: str
    seconds: float
    slow_seconds: float
    samples: int
    tokens: float
    rows: int = 1
    context_tokens: int = 0
    chunk_tokens: int = 0
    draft_tokens: int = 0
    acceptance: float | None = None
    speculation: Speculation | None = None
    floor_seconds: float | None = None
    host_share: float | None = None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def fraction(self) -> float | None:
        """Of the roof: 1 is as fast as the hardware."""
        return None if self.floor_seconds is None else self.floor_seconds / self.seconds


class LoadFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One concurrency of a load over HTTP. Percentiles by name: p50, p90, p99. `errors` counts requests that failed by
    what failed, `not_started` those that there was no time for; `between_tokens_seconds` is over all gaps between two
    events of a stream."""

    concurrency: int
    requests: int
    errors: dict[str, int]
    seconds: float
    output_tokens: int
    first_token_seconds: dict[str, float]
    between_tokens_seconds: dict[str, float]
    check: str
    not_started: int = 0

    @property
    def tokens_per_second(self) -> float:
        return self.output_tokens / self.seconds


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """What the device does at its best, measured: bytes read plus bytes written by a copy, and products of large
    matrices. `measured` is false for rates that were given instead."""

    copy_bytes_per_second: float
    matmul_flops: float
    fp8_matmul_flops: float | None = None
    measured: bool = True


class KernelTime(msgspec.Struct, frozen=True, kw_only=True):
    """What one kernel takes of a unit of work, from the profiler."""

    name: str
    launches: float
    microseconds: float


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a case goes: every kernel, the largest first, per unit of work."""

    case: str
    rows: int
    context_tokens: int
    kernels: tuple[KernelTime, ...]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What it ran on. `card` is the one GPU of all of its name, where that is known: two of them differ by some
    percent, so that a ratio is of figures of one card."""

    device: str
    torch: str
    triton: str
    driver: str
    python: str
    card: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a benchmark: a file under `bench/results`. `code` is the digest of the code behind the device's work
    (`bench.code`), `commit` its commit where it is one; `cases` are what was asked. `peak_bytes` is the most that torch
    had on the device at one time, for the program that was measured."""

    kind: str
    date: str
    digest: str
    model: str
    machine: Machine
    figures: tuple[Figure, ...]
    checks: tuple[Check, ...]
    roof: Roof | None = None
    start_seconds: dict[str, float] = {}
    profiles: tuple[Profile, ...] = ()
    loads: tuple[LoadFigure, ...] = ()
    remarks: tuple[str, ...] = ()
    plan: ExecutionPlan | None = None
    code: str = ""
    commit: str = ""
    cases: EngineCases | None = None
    peak_bytes: int | None = None

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    def covered(self) -> Run:
        """The run with the figures whose check was made and passed: what may be written."""
        passed = {check.name for check in self.checks if check.passed}
        return msgspec.structs.replace(
            self,
            figures=tuple(each for each in self.figures if each.check in passed),
            loads=tuple(each for each in self.loads if each.check in passed),
        )


def save(run: Run, folder: Path) -> Path:
    """Write what may be written of a run. One digest and kind is one file: a later run replaces it, and whoever is cut
    off while writing leaves the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.kind}-{run.model}-{run.digest}.json"
    whole = path.with_suffix(".part")
    whole.write_bytes(msgspec.json.format(msgspec.json.encode(run.covered()), indent=2) + b"\n")
    whole.replace(path)
    return path


def load(paths: Sequence[Path]) -> list[Run]:
    """Runs from files. Raises StartFailed naming the file that is none."""
    runs = []
    for path in paths:
        try:
            runs.append(msgspec.json.decode(path.read_bytes(), type=Run))
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise StartFailed(f"{path} is no result of `ninfer bench`: {error}") from error
    return runs
