"""`ninfer convert`: a Hugging Face directory becomes one `.ninfer` file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ninfer_core.api.stored_matrix import WeightsFormat
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.artifact.identity import name_problem
from ninfer_core.plugins import PluginRegistry


@click.command()
@click.argument("directory", metavar="HF_DIR")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="OUT.ninfer")
@click.option("--model-id", metavar="ID", help="Public name of the model; without it the directory's name.")
@click.option(
    "--weights",
    type=click.Choice(["bf16", "fp8", "nvfp4"]),
    help="Numeric form of the matrices; without it, and with bf16, that of HF_DIR is kept.",
)
@click.option(
    "--draft",
    metavar="DRAFT_DIR",
    help="Directory of a draft checkpoint (DFlash, DFlash2), which goes into the same file.",
)
@click.option("--force", is_flag=True, help="Replace OUT.ninfer if it exists.")
def convert(
    directory: str, output: Path, model_id: str | None, weights: WeightsFormat | None, draft: str | None, force: bool
) -> None:
    """Put weights, config, tokenizer and template of HF_DIR into one file, byte for byte; with --weights fp8 or nvfp4,
    its large matrices in codes; with --draft, the drafter of DRAFT_DIR beside them, as it is.

    The model is checked completely first: its config, every tensor's name, shape and dtype, its frontend.
    """
    if draft == "":
        raise click.BadParameter("it names no directory", param_hint="--draft")
    problem = None if model_id is None else name_problem(model_id)
    if problem is not None:
        raise click.BadParameter(problem, param_hint="--model-id")
    done = convert_directory(
        directory,
        output,
        PluginRegistry.discover(),
        model_id=model_id,
        weights=weights,
        draft=draft,
        overwrite=force,
        progress=_Progress(),
    )
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    identity = done.identity
    click.echo(f"{done.path}: {identity.model_id} ({identity.family}, {identity.weights_id})")
    rate = done.bytes / max(done.seconds, 1e-3) / 1e6
    click.echo(f"{done.tensors} tensors, {done.bytes:,} bytes, {done.seconds:.1f} s ({rate:,.0f} MB/s)")


class _Progress:
    """One line on a terminal's stderr, renewed at every percent; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._percent = -1

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        percent = done_bytes * 100 // max(total_bytes, 1)
        if self._shown and percent != self._percent:
            self._percent = percent
            click.echo(f"\r{percent:3d} % of {total_bytes / 1e9:.1f} GB", nl=percent == 100, err=True)
