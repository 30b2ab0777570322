"""`ninfer bench`: times of the engine and of a server, each with the checks that make them worth something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.cli.serve import serve_until_signal
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import settle_environment

if TYPE_CHECKING:
    from ninfer_core.bench.records import Run

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


@click.group()
def bench() -> None:
    """Measure the engine or a server, and check what was measured."""


@bench.command("engine", cls=ServeCommand)
@serve_options
@click.option("--batches", type=Numbers(), default="1,4,8", show_default=True, help="Rows of decode rounds.")
@click.option("--contexts", type=Numbers(), default="128,8k,64k", show_default=True, help="Tokens of context.")
@click.option("--prompts", type=Numbers(), default="1k,8k,32k,128k", show_default=True, help="Tokens of prompts.")
@click.option("--chunks", type=Numbers(), default="1k,8k", show_default=True, help="Tokens of prefill chunks.")
@click.option("--rounds", type=click.IntRange(4), default=32, show_default=True, help="Rounds that a median is of.")
@click.option("--prefills", type=click.IntRange(1), default=3, show_default=True, help="Prompts that a median is of.")
@click.option("--mixes", type=click.IntRange(0), default=0, help="Check that answers do not depend on company.")
@click.option("--host-tokens", type=click.IntRange(0), default=0, help="Measure the engine's share with such answers.")
@click.option("--roof", is_flag=True, help="Measure the device too, and print figures as fractions of it.")
@click.option(
    "--synthetic-acceptance",
    "acceptances",
    type=Probabilities(),
    default="",
    help="Time rounds in which each draft is kept with such a probability. Needs --spec.",
)
@click.option("--profile", "profiled", is_flag=True, help="Record which kernels a round spends its time in.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def engine_command(
    options: ServeOptions,
    batches: tuple[int, ...],
    contexts: tuple[int, ...],
    prompts: tuple[int, ...],
    chunks: tuple[int, ...],
    rounds: int,
    prefills: int,
    mixes: int,
    host_tokens: int,
    roof: bool,
    acceptances: tuple[float, ...],
    profiled: bool,
    output: Path,
) -> None:
    """Times of decode rounds and prefills of ARTIFACT, checked against --kernels reference on the same weights.

    Writes OUTPUT/engine-MODEL-DIGEST.json. A figure whose check failed is not written, and the exit code is 1.
    """
    if not batches:
        raise click.BadParameter("at least one number of rows is needed", param_hint="--batches")
    if acceptances and options.spec is None:
        raise click.BadParameter("there are no drafts without --spec", param_hint="--synthetic-acceptance")
    settle_environment("cpu" if options.device == "cpu" else "cuda")
    from ninfer_core.bench.cases import EngineCases
    from ninfer_core.bench.engine_run import bench_engine

    cases = EngineCases(
        batches, contexts, prompts, chunks, rounds, prefills, mixes, host_tokens, roof, profiled, acceptances
    )
    _finish(bench_engine(options, cases, PluginRegistry.discover(), click.echo), output)


@bench.command("serve", cls=ServeCommand)
@serve_options
@click.option("--concurrency", type=Numbers(), default="1,4,8", show_default=True, help="Requests at the same time.")
@click.option("--requests", type=click.IntRange(1), default=16, show_default=True, help="Requests of each of them.")
@click.option("--prompt-words", type=click.IntRange(1), default=128, show_default=True, help="Words of a prompt.")
@click.option("--output-tokens", type=click.IntRange(2), default=64, show_default=True, help="Of an answer, at most.")
@click.option("--key", help="API key of the server.", envvar="NINFER_BENCH_KEY")
@click.option("--seconds", type=click.FloatRange(1), default=600.0, show_default=True, help="Longest time in all.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def serve_command(
    options: ServeOptions,
    concurrency: tuple[int, ...],
    requests: int,
    prompt_words: int,
    output_tokens: int,
    key: str | None,
    seconds: float,
    output: Path,
) -> None:
    """Load over HTTP: ARTIFACT is served for it, or is the URL of a server that runs.

    Prints time to the first token, time between tokens and tokens a second for each concurrency, and counts errors.
    Writes OUTPUT/serve-MODEL-DIGEST.json.
    """
    from ninfer_core.bench.load import Load
    from ninfer_core.bench.serve_run import bench_serve

    load = Load(
        concurrency=concurrency,
        requests=requests,
        prompt_words=prompt_words,
        output_tokens=output_tokens,
        key=key,
        seconds=seconds,
    )
    _finish(bench_serve(options, load, serve_until_signal, click.echo), output)


@bench.command("upload", cls=ServeCommand)
@serve_options
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def upload_command(options: ServeOptions, output: Path) -> None:
    """How fast the weights of ARTIFACT, a file or directory, reach the device: read from the disk, and out of the
    system's cache. Writes OUTPUT/upload-MODEL-DIGEST.json.
    """
    settle_environment("cpu" if options.device == "cpu" else "cuda")
    from ninfer_core.bench.upload import bench_upload

    _finish(bench_upload(options, PluginRegistry.discover(), click.echo), output)


@bench.command("plot")
@click.argument("results", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="PICTURE")
def plot_command(results: Sequence[Path], output: Path) -> None:
    """One picture of RESULTS, files that the other commands wrote. Needs matplotlib."""
    from ninfer_core.bench.plot import draw
    from ninfer_core.bench.records import load

    draw(load(results), output)
    click.echo(str(output))


def _finish(run: Run, folder: Path) -> None:
    """Write what may be written; raise BenchFailed when a check failed."""
    from ninfer_core.bench.records import BenchFailed, save
    from ninfer_core.bench.wording import profile_lines, roof_line

    for profile in run.profiles:
        click.echo("\n".join(profile_lines(profile)))
    if run.roof is not None:
        click.echo(roof_line(run.roof))
    for remark in run.remarks:
        click.echo(f"note     {remark}")
    click.echo(str(save(run, folder)))
    if run.failed:
        raise BenchFailed([check.name for check in run.failed])
