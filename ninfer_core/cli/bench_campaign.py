"""`ninfer bench campaign`: many rows of `ninfer bench engine`, in what time there is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ninfer_core.api.errors import NinferError, StartFailed
from ninfer_core.bench.campaign import Campaign, Row, read_campaign
from ninfer_core.bench.code import Code, code_of
from ninfer_core.bench.goals import ROUND_HEADINGS, newest_runs, round_lines, step_headings, step_lines
from ninfer_core.bench.journal import Journal
from ninfer_core.bench.measured_row import measure_row
from ninfer_core.bench.records import CampaignFailed
from ninfer_core.bench.series import Series
from ninfer_core.bench.worker import Task
from ninfer_core.cli.bench_engine import RESULTS, asked_by
from ninfer_core.cli.table import table
from ninfer_core.plugins.registry import PluginRegistry

LOG, TABLE, PICTURE = "log.txt", "campaign.txt", "campaign.png"


@click.command("campaign")
@click.argument("file", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.argument("names", nargs=-1, metavar="[ROW]...")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
@click.option("--limit-seconds", type=click.FloatRange(min=0), help="Begin no row that would not end within these.")
@click.option("--resume", is_flag=True, help="Leave out rows that passed on this code; try last those that did not.")
@click.option("--fresh", is_flag=True, help="Measure each row in a process of its own.")
@click.option("--list", "listed", is_flag=True, help="Show the rows and what became of them; measure nothing.")
@click.option("--table", "tables_only", is_flag=True, help="Show the tables of what was measured; measure nothing.")
@click.option("--plot", is_flag=True, help=f"Draw OUTPUT/{PICTURE} as well. Needs matplotlib.")
def campaign_command(
    file: Path,
    names: tuple[str, ...],
    output: Path,
    limit_seconds: float | None,
    resume: bool,
    fresh: bool,
    listed: bool,
    tables_only: bool,
    plot: bool,
) -> None:
    """Measure the rows of FILE, or those that are named, one after the other in one process, and show what they reach.

    Each row is checked and written to OUTPUT/ROW as soon as it has ended, and OUTPUT/journal.jsonl says what was begun:
    a campaign that is cut off goes on with --resume. The exit code is 1 when a row was begun and did not pass.
    """
    campaign = read_campaign(file)
    tasks = [task_of(campaign, row, output) for row in campaign.chosen(names)]
    code, journal = code_of(PluginRegistry.discover()), Journal(output)
    if listed:
        click.echo(_listing(tasks, journal, code))
        return
    if not tables_only:
        series = Series(tasks, journal, code.digest, measure_row, _Log(output).say, fresh=fresh)
        series.run(limit_seconds, resume)
    _show(campaign, tasks, journal, code, output)
    if plot:
        _draw(campaign, output)
    unsound = [task.name for task in tasks if journal.standing(*_key(task, code)) in {"wrong", "failed", "cut"}]
    if unsound and not tables_only:
        raise CampaignFailed(unsound)


def task_of(campaign: Campaign, row: Row, output: Path) -> Task:
    """Raises StartFailed for words that the command does not know, before anything is measured."""
    words = campaign.words(row)
    try:
        options, cases = asked_by(words)
    except (click.ClickException, NinferError) as error:
        raise StartFailed(f"row {row.name} cannot be asked for: {_text(error)}") from error
    return Task(row.name, words, row.seconds, options, cases, output / row.name)


class _Log:
    """Says lines, and has them on the disk at once, with the second: of a row that is cut off they are all there is."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._begun = folder / LOG, time.monotonic()

    def say(self, line: str) -> None:
        click.echo(line)
        with self._path.open("a") as file:
            file.write(f"{time.monotonic() - self._begun:7.1f}  {line}\n")


def _show(campaign: Campaign, tasks: Sequence[Task], journal: Journal, code: Code, output: Path) -> None:
    """Print the tables and write them beside the results."""
    runs = newest_runs(output, campaign.row)
    parts = [
        _headed(step_headings(campaign), step_lines(campaign, runs)),
        _headed(ROUND_HEADINGS, round_lines(campaign, runs)),
        _missing(tasks, journal, code),
    ]
    text = "\n\n".join(filter(None, parts))
    click.echo(text)
    if runs:
        (output / TABLE).write_text(text + "\n")


def _headed(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table, or nothing where it has no lines."""
    return table(headings, lines) if lines else ""


def _missing(tasks: Sequence[Task], journal: Journal, code: Code) -> str:
    """Rows that have not passed on this code, and why."""
    missing = [task for task in tasks if journal.standing(*_key(task, code)) != "passed"]
    return _headed(("MISSING", f"ON {_of(code)}", "WHY"), [_became(task, journal, code) for task in missing])


def _listing(tasks: Sequence[Task], journal: Journal, code: Code) -> str:
    """Rows, what became of them on this code, and what they ask for."""
    lines = [(*_became(task, journal, code)[:2], f"{task.seconds:.0f} s", task.words) for task in tasks]
    return table(("ROW", f"ON {_of(code)}", "ABOUT", "NINFER BENCH ENGINE"), lines)


def _became(task: Task, journal: Journal, code: Code) -> tuple[str, str, str]:
    """Name, standing and reason."""
    standing, entry = journal.standing(*_key(task, code)), journal.last(*_key(task, code))
    reason = "not begun" if entry is None else entry.message
    return task.name, standing, reason or ("cut off before its end" if standing == "cut" else "")


def _of(code: Code) -> str:
    return code.digest + (f" ({code.commit})" if code.commit else "")


def _draw(campaign: Campaign, output: Path) -> None:
    from ninfer_core.bench.plot import draw

    draw(list(newest_runs(output, campaign.row).values()), output / PICTURE)


def _key(task: Task, code: Code) -> tuple[str, str, str]:
    return task.name, task.words, code.digest


def _text(error: click.ClickException | NinferError) -> str:
    return error.message if isinstance(error, NinferError) else error.format_message()
