"""`ninfer bench engine`: what it can be asked, as a command line and as the words of a campaign's row."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ninfer_core.bench.records import BenchFailed, EngineCases, Run, save
from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import settle_environment

RESULTS = Path("bench/results")


class Numbers(click.ParamType[tuple[int, ...]]):
    """`1,4,8`, or nothing. A `k` stands for 1,024."""

    name = "N,N,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word for word in str(value).split(",") if word]
        try:
            numbers = tuple(int(word.removesuffix("k")) * (1024 if word.endswith("k") else 1) for word in words)
        except ValueError:
            self.fail(f"{value!r} is no list of numbers such as 1,4,8 or 1k,8k", param, ctx)
        if any(number < 1 for number in numbers):
            self.fail(f"{value!r} has a number below 1", param, ctx)
        return numbers


class Probabilities(click.ParamType[tuple[float, ...]]):
    """`0.5,0.8`, or nothing."""

    name = "P,P,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(word) for word in str(value).split(",") if word)
        except ValueError:
            self.fail(f"{value!r} is no list of probabilities such as 0.5,0.8", param, ctx)
        if not all(0 <= number <= 1 for number in numbers):
            self.fail(f"{value!r} has a number outside 0 to 1", param, ctx)
        return numbers


CASE_OPTIONS = (
    click.option("--batches", type=Numbers(), default="1,4,8", show_default=True, help="Rows of decode rounds."),
    click.option("--contexts", type=Numbers(), default="128,8k,64k", show_default=True, help="Tokens of context."),
    click.option("--prompts", type=Numbers(), default="1k,8k,32k,128k", show_default=True, help="Tokens of prompts."),
    click.option("--chunks", type=Numbers(), default="1k,8k", show_default=True, help="Tokens of prefill chunks."),
    click.option("--rounds", type=click.IntRange(4), default=32, show_default=True, help="Rounds a median is of."),
    click.option("--prefills", type=click.IntRange(1), default=3, show_default=True, help="Prompts a median is of."),
    click.option("--mixes", type=click.IntRange(0), default=0, help="Check that answers do not depend on company."),
    click.option("--host-tokens", type=click.IntRange(0), default=0, help="Measure the engine's share with answers."),
    click.option("--roof", is_flag=True, help="Measure the device too, and print figures as fractions of it."),
    click.option(
        "--synthetic-acceptance",
        "acceptances",
        type=Probabilities(),
        default="",
        help="Time rounds in which each draft is kept with such a probability. Needs --spec.",
    ),
    click.option("--profile", "profiled", is_flag=True, help="Record which kernels a round spends its time in."),
)


def engine_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click callback: it is given `options` and `cases`. Raises BadParameter for cases that are none."""

    @functools.wraps(function)
    def with_cases(
        options: ServeOptions,
        batches: tuple[int, ...],
        contexts: tuple[int, ...],
        prompts: tuple[int, ...],
        chunks: tuple[int, ...],
        acceptances: tuple[float, ...],
        rounds: int,
        prefills: int,
        mixes: int,
        host_tokens: int,
        roof: bool,
        profiled: bool,
        **rest: Any,
    ) -> Any:
        if not batches:
            raise click.BadParameter("at least one number of rows is needed", param_hint="--batches")
        if acceptances and options.spec is None:
            raise click.BadParameter("there are no drafts without --spec", param_hint="--synthetic-acceptance")
        cases = EngineCases(
            batches, contexts, prompts, chunks, rounds, prefills, mixes, host_tokens, roof, profiled, acceptances
        )
        return function(options=options, cases=cases, **rest)

    command: Callable[..., Any] = with_cases
    for option in reversed(CASE_OPTIONS):
        command = option(command)
    return serve_options(command)


@click.command("engine", cls=ServeCommand)
@engine_options
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def engine_command(options: ServeOptions, cases: EngineCases, output: Path) -> None:
    """Times of decode rounds and prefills of ARTIFACT, checked against --kernels reference on the same weights.

    Writes OUTPUT/engine-MODEL-DIGEST.json. A figure whose check failed is not written, and the exit code is 1.
    With --spec verify, which nothing else knows, rounds check drafts that nobody drafts.
    """
    settle_environment("cpu" if options.device == "cpu" else "cuda")
    from ninfer_core.bench.engine_run import bench_engine
    from ninfer_core.bench.verify import with_verify

    finish(bench_engine(options, cases, with_verify(PluginRegistry.discover()), click.echo), output)


def asked_by(words: str) -> tuple[ServeOptions, EngineCases]:
    """What these words of the command ask for. Raises click's errors and PlanRejected for words that are wrong."""

    @click.command("engine", cls=ServeCommand)
    @engine_options
    def ask(options: ServeOptions, cases: EngineCases) -> tuple[ServeOptions, EngineCases]:
        return options, cases

    asked: tuple[ServeOptions, EngineCases] = ask.main(shlex.split(words), "engine", standalone_mode=False)
    return asked


def finish(run: Run, folder: Path) -> None:
    """Write what may be written; raise BenchFailed when a check failed."""
    from ninfer_core.bench.wording import closing_lines

    for line in closing_lines(run):
        click.echo(line)
    click.echo(str(save(run, folder)))
    if run.failed:
        raise BenchFailed([check.name for check in run.failed])
