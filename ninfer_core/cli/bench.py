"""`ninfer bench`: times of the engine and of a server, each with the checks that make them worth something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ninfer_core.cli.bench_campaign import campaign_command
from ninfer_core.cli.bench_engine import RESULTS, Numbers, engine_command, finish
from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.cli.serve import serve_until_signal
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import settle_environment


@click.group()
def bench() -> None:
    """Measure the engine or a server, and check what was measured."""


bench.add_command(engine_command)
bench.add_command(campaign_command)


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
    finish(bench_serve(options, load, serve_until_signal, click.echo), output)


@bench.command("upload", cls=ServeCommand)
@serve_options
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def upload_command(options: ServeOptions, output: Path) -> None:
    """How fast the weights of ARTIFACT, a file or directory, reach the device: read from the disk, and out of the
    system's cache. Writes OUTPUT/upload-MODEL-DIGEST.json.
    """
    settle_environment("cpu" if options.device == "cpu" else "cuda")
    from ninfer_core.bench.upload import bench_upload

    finish(bench_upload(options, PluginRegistry.discover(), click.echo), output)


@bench.command("plot")
@click.argument("results", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="PICTURE")
def plot_command(results: Sequence[Path], output: Path) -> None:
    """One picture of RESULTS, files that the other commands wrote. Needs matplotlib."""
    from ninfer_core.bench.plot import draw
    from ninfer_core.bench.records import load

    draw(load(results), output)
    click.echo(str(output))
