"""One picture of some runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.records import Figure, LoadFigure, Run

DOTS_PER_INCH = 120


def draw(runs: Sequence[Run], output: Path) -> None:
    """Steps, prefills and loads of all runs, each kind in a panel of its own, and the floors behind them. Raises
    StartFailed without matplotlib, for runs without figures, and for a picture that cannot be written."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError as error:
        raise StartFailed("the picture needs matplotlib: pip install 'ninfer[dev]', or matplotlib alone") from error
    panels = [panel for panel in (_steps, _prefills, _loads) if any(panel(None, run) for run in runs)]
    if not panels:
        raise StartFailed("there is nothing to draw: these results have no figures")
    picture = Picture(figsize=(8 * len(panels), 6), layout="constrained")
    for panel, axes in zip(panels, picture.subplots(1, len(panels), squeeze=False)[0], strict=True):
        for run in runs:
            panel(axes, run)
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    devices = sorted({run.machine.device for run in runs})
    picture.suptitle(f"{', '.join(devices)}; {', '.join(sorted({run.date[:10] for run in runs}))}")
    try:
        picture.savefig(output, dpi=DOTS_PER_INCH)
    except (OSError, ValueError) as error:
        raise StartFailed(f"the picture cannot be written to {output}: {error}") from error


def _label(run: Run) -> str:
    """Two plans of one model differ in their weights, or in something that only their digest says."""
    weights = "" if run.plan is None else f" {run.plan.identity.weights_id}"
    return f"{run.model}{weights} {run.digest[:4]}"


def _steps(axes: Any, run: Run) -> bool:
    """Milliseconds of a step over the context, a line for each number of rows; dashed: the floor."""
    by_rows: dict[int, list[Figure]] = {}
    for figure in run.figures:
        if figure.case == "decode":
            by_rows.setdefault(figure.rows, []).append(figure)
    for rows, figures in by_rows.items() if axes is not None else ():
        contexts = [figure.context_tokens for figure in figures]
        (line,) = axes.plot(
            contexts, [figure.seconds * 1e3 for figure in figures], "o-", label=f"{_label(run)}, {rows} rows"
        )
        floors = [figure.floor_seconds for figure in figures]
        if all(floor is not None for floor in floors):
            axes.plot(contexts, [(floor or 0) * 1e3 for floor in floors], "--", color=line.get_color())
    if axes is not None:
        axes.set(
            xscale="log", xlabel="context, tokens", ylabel="step, ms", title="Decode (dashed: floor)", ylim=(0, None)
        )
    return bool(by_rows)


def _prefills(axes: Any, run: Run) -> bool:
    """Tokens a second over the length of the prompt, a line for each chunk."""
    by_chunk: dict[int, list[Figure]] = {}
    for figure in run.figures:
        if figure.case == "prefill":
            by_chunk.setdefault(figure.chunk_tokens, []).append(figure)
    if axes is not None:
        for chunk, figures in by_chunk.items():
            tokens = [figure.tokens for figure in figures]
            rates = [figure.tokens_per_second for figure in figures]
            axes.plot(tokens, rates, "o-", label=f"{_label(run)}, chunks of {chunk}")
        axes.set(xscale="log", xlabel="prompt, tokens", ylabel="tokens/s", title="Prefill")
    return bool(by_chunk)


def _loads(axes: Any, run: Run) -> bool:
    """Time to the first token and between tokens at the median over the clients; thin: 99 of a hundred."""
    loads: list[LoadFigure] = [load for load in run.loads if load.first_token_seconds]
    if axes is not None and loads:
        clients = [load.concurrency for load in loads]
        for name, values in (
            ("first token", [load.first_token_seconds for load in loads]),
            ("between tokens", [load.between_tokens_seconds for load in loads]),
        ):
            (line,) = axes.plot(clients, [_ms(each, "p50") for each in values], "o-", label=f"{_label(run)}, {name}")
            axes.plot(clients, [_ms(each, "p99") for each in values], linewidth=0.8, color=line.get_color())
        axes.set(xlabel="clients", ylabel="ms", yscale="log", title="Over HTTP (thin: p99)")
    return bool(loads)


def _ms(percentiles: dict[str, float], name: str) -> float:
    return percentiles.get(name, float("nan")) * 1e3
