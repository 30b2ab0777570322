"""The tables of a campaign: what was measured beside what had to be."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from ninfer_core.bench.acceptance import break_even, expected_tokens
from ninfer_core.bench.campaign import Bars, Campaign, Goal, Row
from ninfer_core.bench.records import Figure, Run, load

SHORT_CONTEXT, LONG_CONTEXT = 128, 65536
"""Tokens. What a step takes more over the long one is the reading of its keys and values."""

Line = tuple[str, ...]


def newest_runs(folder: Path, rows: Sequence[Row]) -> dict[str, Run]:
    """By the name of their row, those of which there is a result."""
    runs = {row.name: load(sorted((folder / row.name).glob("engine-*.json"))) for row in rows}
    return {name: max(found, key=lambda run: run.date) for name, found in runs.items() if found}


def step_headings(campaign: Campaign) -> Line:
    return ("CASE", "MEASURED", "REACH", "AIM", "OF ROOF", f"OVER {campaign.peer or 'PEER'}".upper(), "PLAN", "CODE")


def step_lines(campaign: Campaign, runs: Mapping[str, Run]) -> list[Line]:
    """What rows reach without drafts, and what every one of them has to."""
    lines: list[Line] = []
    for row in campaign.row:
        if row.name in runs:
            run = runs[row.name]
            lines.extend((*line, run.digest, code_text(run)) for line in _row_lines(row, run, campaign.bars))
    return lines


def _row_lines(row: Row, run: Run, bars: Bars) -> list[Line]:
    lines = [_goal_line(row.name, goal, run) for goal in row.goals]
    start = sum(run.start_seconds.values())
    lines.append((f"{row.name}: start", f"{start:.1f} s", _seconds(bars.start_seconds), "", "", ""))
    for figure in run.figures:
        if figure.host_share is not None:
            title = f"{row.name}: waiting for the host, B={figure.rows}"
            lines.append((title, f"{figure.host_share:.1%}", _share(bars.host_share), "", "", ""))
    for rows, share in attention_shares(run):
        title = f"{row.name}: attention at {LONG_CONTEXT}, B={rows}"
        lines.append((title, f"{share:.0%} of the copy rate", _share(bars.attention_share), "", "", ""))
    return lines


def _goal_line(name: str, goal: Goal, run: Run) -> Line:
    what = f"step, B={goal.rows}" if goal.case == "decode" else f"prefill of {goal.tokens} tokens"
    title, bars = f"{name}: {what}", (_ms(goal.reach_ms), _ms(goal.aim_ms))
    found = [figure for figure in run.figures if _is_of(figure, goal)]
    if not found:
        return (title, "no checked figure", *bars, "", "")
    best = min(found, key=lambda figure: figure.seconds)
    roof = "" if best.fraction is None else f"{best.fraction:.0%}"
    peer = "" if goal.peer_ms is None else f"{goal.peer_ms / 1e3 / best.seconds:.2f}x"
    return (title, _ms(best.seconds * 1e3), *bars, roof, peer)


def _is_of(figure: Figure, goal: Goal) -> bool:
    length = figure.context_tokens if goal.case == "decode" else figure.tokens
    return (figure.case, figure.rows, length) == (goal.case, goal.rows, goal.tokens)


def attention_shares(run: Run) -> list[tuple[int, float]]:
    """(rows, share of the copy rate) of what the long context adds to a step: its keys and values, over the time that
    they add."""
    steps = {(figure.rows, figure.context_tokens): figure for figure in run.figures if figure.case == "decode"}
    shares = []
    for (rows, context), figure in steps.items():
        short = steps.get((rows, SHORT_CONTEXT))
        if context == LONG_CONTEXT and short is not None and figure.floor_seconds and short.floor_seconds:
            added = figure.floor_seconds - short.floor_seconds
            shares.append((rows, added / (figure.seconds - short.seconds)))
    return shares


ROUND_HEADINGS = (
    "ROUND",
    "MEASURED",
    "OF A STEP",
    "REACH",
    "PAYS FROM",
    "WITHOUT",
    "TOKENS/S AT ACCEPTANCE",
    "PLAN",
    "CODE",
    "",
)


def round_lines(campaign: Campaign, runs: Mapping[str, Run]) -> list[Line]:
    """A line for each number of rows that a row with drafts and the one that it is held against have, over the shortest
    context."""
    lines: list[Line] = []
    for row in campaign.row:
        if row.steps in runs and row.name in runs:
            lines.extend(_round_lines(row, runs[row.name], runs[row.steps]))
    return lines


def _round_lines(row: Row, drafted: Run, plain: Run) -> list[Line]:
    lines: list[Line] = []
    reach = {goal.rows: f"{goal.reach:.2f}x" for goal in row.rounds}
    doubt = "" if drafted.machine == plain.machine else "its step is of another card or version"
    context = min((figure.context_tokens for figure in drafted.figures if figure.case == "decode"), default=0)
    for rows in sorted({figure.rows for figure in drafted.figures if figure.case == "decode"}):
        rounds, steps = _decodes(drafted, rows, context), _decodes(plain, rows, context)
        if not rounds or not steps:
            continue
        seconds, step = statistics.median(figure.seconds for figure in rounds), steps[0]
        ratio = seconds / step.seconds
        even = break_even(ratio, rounds[0].draft_tokens)
        # By what an acceptance gives in the mean: two dozen rounds of one seed are a poor estimate of it.
        rates = "  ".join(_rate(figure, seconds) for figure in rounds)
        paying = "never" if even is None else f"{even:.2f}"
        measured = _ms(seconds * 1e3), f"{ratio:.3f}x", reach.get(rows, ""), paying, f"{step.tokens_per_second:.0f}"
        lines.append((f"{row.name}, B={rows}", *measured, rates, drafted.digest, code_text(drafted), doubt))
    return lines


def _rate(figure: Figure, round_seconds: float) -> str:
    """Tokens a second of all rows: `0.5: 205` at that acceptance, `205` where the model said what was kept."""
    if figure.acceptance is None:
        return f"{figure.tokens / round_seconds:.0f}"
    rate = figure.rows * expected_tokens(figure.acceptance, figure.draft_tokens) / round_seconds
    return f"{figure.acceptance:g}: {rate:.0f}"


def _decodes(run: Run, rows: int, context_tokens: int) -> list[Figure]:
    asked = ("decode", rows, context_tokens)
    return [figure for figure in run.figures if (figure.case, figure.rows, figure.context_tokens) == asked]


def code_text(run: Run) -> str:
    """Which code a run is of: its commit, or the digest of what had none."""
    return run.commit or run.code


def _ms(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:.2f} ms"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
