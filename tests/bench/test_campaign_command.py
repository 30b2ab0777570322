"""`ninfer bench campaign`: what it begins, writes and says, its rows being measured by nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.journal import Journal
from ninfer_core.bench.measured_row import measure_row
from ninfer_core.bench.records import Check, EngineCases, Figure, Machine, Run, load, save
from ninfer_core.bench.worker import Answer, Say, Task
from ninfer_core.cli.main import main
from ninfer_core.plan.options import ServeOptions

CAMPAIGN = """
common = "--device cpu --max-context 256 --contexts 32 --prompts 48 --chunks 32 --rounds 4 --prefills 1 --batches 1"
[[row]]
name = "plain"
run = ""
seconds = 5
goals = [{ case = "decode", tokens = 32, reach_ms = 9.5 }]
[[row]]
name = "drafted"
run = "--spec mtp --synthetic-acceptance 0,1"
seconds = 5
steps = "plain"
rounds = [{ rows = 1, reach = 1.25 }]
"""
WRONG = """
[[row]]
name = "wrong"
run = "--mixes 1"
seconds = 5
"""


def run_of(*figures: Figure, passed: bool) -> Run:
    return Run(
        kind="engine",
        date="2026-01-01",
        digest="0123",
        model="some",
        machine=Machine(device="", torch="", triton="", driver="", python=""),
        figures=figures,
        checks=(Check(name="context 32", passed=passed, values={}, limits={}),),
    )


class Written:
    """A worker that writes what it is told to, at once."""

    def __init__(self, measure: object) -> None:
        return

    def ask(self, task: Task, say: Say, patience_seconds: float) -> Answer:
        say(f"decode of {task.name}")
        rounds = [(0.010, None, 0)] if task.name == "plain" else [(0.012, 0.0, 3), (0.012, 1.0, 3)]
        figures = tuple(
            Figure(
                case="decode",
                check="context 32",
                seconds=seconds,
                slow_seconds=seconds,
                samples=4,
                tokens=1,
                context_tokens=32,
                acceptance=acceptance,
                draft_tokens=drafts,
            )
            for seconds, acceptance, drafts in rounds
        )
        right = not task.cases.mixes
        path = save(run_of(*figures, passed=right), task.folder)
        return Answer("passed" if right else "wrong", "" if right else "checks failed: context 32", path.name)

    def close(self) -> None:
        return


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("ninfer_core.bench.series.Worker", Written)
    path = tmp_path / "campaign.toml"
    path.write_text(CAMPAIGN)
    return path


def command(file: Path, *words: str) -> int:
    return main(["bench", "campaign", str(file), "--output", str(file.parent / "out"), *words])


def test_rows_are_measured_and_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(file) == 0
    said = capsys.readouterr().out
    (step,) = (line for line in said.splitlines() if line.startswith("plain: step, B=1"))
    assert step.split()[3:7] == ["10.00", "ms", "9.50", "ms"]
    (drafted,) = (line for line in said.splitlines() if line.startswith("drafted, B=1"))
    assert drafted.split()[4:7] == ["1.200x", "1.25x", "0.17"]
    assert "MISSING" not in said
    out = file.parent / "out"
    assert (out / "campaign.txt").read_text() in said
    assert [path.parent.name for path in sorted(out.glob("*/engine-*.json"))] == ["drafted", "plain"]
    assert "decode of plain" in (out / "log.txt").read_text()


def test_a_check_that_fails_is_the_exit_code_and_the_others_are_measured(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(CAMPAIGN.replace("[[row]]", WRONG + "[[row]]", 1))
    assert command(file) == 1
    said = capsys.readouterr()
    assert "bench_failed: rows did not pass: wrong;" in said.err
    (missing,) = (line for line in said.out.splitlines() if line.startswith("wrong  "))
    assert missing.split(maxsplit=2)[1:] == ["wrong", "checks failed: context 32"]
    assert "plain: step, B=1" in said.out and "drafted, B=1" in said.out
    (run,) = load(sorted((file.parent / "out" / "wrong").iterdir()))
    assert run.figures == ()


def test_what_there_is_no_time_for_is_missing_and_is_measured_when_it_goes_on(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(file, "--limit-seconds", "4") == 0
    said = capsys.readouterr().out
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["plain", "new"], ["drafted", "new"]]
    assert command(file, "plain") == 0
    assert command(file, "--resume") == 0
    said = capsys.readouterr().out
    assert said.count("decode of plain") == said.count("decode of drafted") == 1 and "MISSING" not in said.splitlines()


def test_nothing_is_measured_to_show_what_there_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(file, "--list") == command(file, "--table") == 0
    said = capsys.readouterr().out
    assert "decode of" not in said and "--spec mtp --synthetic-acceptance 0,1" in said and "not begun" in said
    assert not (file.parent / "out").exists()


@pytest.mark.parametrize("words", [["other"], ["--limit-seconds", "-1"]])
def test_what_cannot_be_asked_for_is_refused(words: list[str], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(file, *words) != 0
    assert "decode of" not in capsys.readouterr().out


def broken() -> int:
    raise RuntimeError("CUDA error")


@pytest.mark.parametrize(
    ("left", "sound", "said"),
    [
        (lambda: 0, True, ""),
        (lambda: 2**30, False, "1.00 GiB are still held"),
        (broken, False, "does not answer any more (CUDA error)"),
    ],
)
@pytest.mark.parametrize(("failed", "event"), [(False, "wrong"), (True, "failed")])
def test_a_process_in_which_something_stays_is_not_gone_on_with(
    left: Callable[[], int],
    sound: bool,
    said: str,
    failed: bool,
    event: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(*arguments: object) -> Run:
        if failed:
            raise StartFailed("the device ran out of memory\n  during 'weights'")
        return run_of(passed=False)

    monkeypatch.setattr("ninfer_core.bench.engine_run.bench_engine", measured)
    monkeypatch.setattr("ninfer_core.bench.accelerator.give_back", left)
    lines: list[str] = []
    task = Task("some", "", 1.0, ServeOptions(device="cpu"), EngineCases((1,), (128,), (), ()), tmp_path)
    answer = measure_row(task, lines.append)
    assert (answer.event, answer.sound) == (event, sound) and said in "".join(lines)
    if failed:
        assert answer.message == "start_failed: the device ran out of memory during 'weights'"
    else:
        assert answer.message == "checks failed: context 32" and (tmp_path / answer.file).exists()


@pytest.mark.long
def test_a_campaign_on_a_real_program_is_killed_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the middle of its second row, whose process ends with it."""
    file, out = tmp_path / "campaign.toml", tmp_path / "out"
    file.write_text(CAMPAIGN)
    words = [sys.executable, "-m", "ninfer_core", "bench", "campaign", str(file), "--output", str(out)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("decode") and (out / "plain").exists():
                os.kill(process.pid, signal.SIGKILL)
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["plain"]
    (before,) = load(sorted((out / "plain").iterdir()))
    assert command(file, "--resume") == 0
    assert [entry.event for entry in Journal(out).entries] == ["begun", "passed", "begun", "begun", "passed"]
    assert "MISSING" not in capsys.readouterr().out
    assert load(sorted((out / "plain").iterdir())) == [before]
    (drafted,) = load(sorted((out / "drafted").iterdir()))
    assert [each.acceptance for each in drafted.figures if each.case == "decode"] == [0.0, 1.0]
