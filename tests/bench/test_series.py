"""Rows of a campaign: which is next, what becomes of those that go wrong, and what a cut-off campaign leaves."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from ninfer_core.bench.journal import FILE, Journal
from ninfer_core.bench.records import EngineCases
from ninfer_core.bench.series import Series
from ninfer_core.bench.worker import Answer, Say, Task
from ninfer_core.plan.options import ServeOptions

MEASURES = """
from __future__ import annotations

import os
import time

from ninfer_core.bench.worker import Answer


def by_name(task, say):
    say(f"{task.name} in {os.getpid()}")
    if task.name == "memory":
        raise MemoryError("CUDA out of memory.\\nMuch more is said")
    if task.name == "dying":
        os._exit(9)
    if task.name == "hanging":
        time.sleep(60)
    if task.name == "wrong":
        return Answer("wrong", "checks failed: layers")
    if task.name == "held":
        return Answer("passed", file="engine.json", sound=False)
    return Answer("passed", file="engine.json")
"""


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the process of a series knows by its name."""
    (tmp_path / "measures_of_a_test.py").write_text(MEASURES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("measures_of_a_test")


def task(name: str, seconds: float = 10.0) -> Task:
    cases = EngineCases((1,), (128,), (), ())
    return Task(name, f"--name {name}", seconds, ServeOptions(device="cpu"), cases, Path(name))


def told(lines: Sequence[str], end: str) -> list[str]:
    """Names of the rows that were said to be ended so."""
    return [line.split()[1] for line in lines if line.startswith("--- ") and line.split()[2] == end]


def test_a_row_that_goes_wrong_takes_no_other_with_it(tmp_path: Path, measures: ModuleType) -> None:
    """Not one that runs out of memory, nor one that ends its process."""
    names = ["first", "wrong", "memory", "second", "dying", "held", "last"]
    lines: list[str] = []
    journal = Journal(tmp_path / "out")
    Series([task(name) for name in names], journal, "c0de", measures.by_name, lines.append).run()
    standings = {name: Journal(tmp_path / "out").standing(name, f"--name {name}", "c0de") for name in names}
    assert standings == dict.fromkeys(names, "passed") | {
        "wrong": "wrong",
        "memory": "failed",
        "dying": "failed",
    }
    why = {name: entry.message for name in names if (entry := journal.last(name, f"--name {name}", "c0de"))}
    assert why["wrong"] == "checks failed: layers"
    assert why["memory"] == "MemoryError: CUDA out of memory."
    assert why["dying"] == "its process ended with exit code 9"
    # One process goes on until it has something left of a row, or nobody knows whether it has.
    processes = {line.split()[0]: line.split()[2] for line in lines if not line.startswith("---")}
    assert processes["first"] == processes["wrong"] == processes["memory"]
    assert processes["second"] == processes["dying"] != processes["memory"]
    assert processes["last"] != processes["held"] != processes["dying"]


def test_a_row_that_comes_to_no_end_is_given_up(
    tmp_path: Path, measures: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ninfer_core.bench.series.LEAST_PATIENCE_SECONDS", 3.0)
    lines: list[str] = []
    series = Series([task("hanging", 0.1), task("next")], Journal(tmp_path), "c0de", measures.by_name, lines.append)
    series.run()
    assert told(lines, "failed") == ["hanging"] and told(lines, "passed") == ["next"]
    assert any("given up after 3 s" in line for line in lines)


class Told:
    """A worker without a process: rows take what they are told to, on a clock of its own."""

    def __init__(self, seconds: dict[str, float], events: dict[str, str] | None = None) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.patience: list[float] = []
        self._seconds, self._events = seconds, events or {}

    def __call__(self, measure: object) -> Told:
        return self

    def clock(self) -> float:
        return self.now

    def ask(self, task: Task, say: Say, patience_seconds: float) -> Answer:
        self.asked.append(task.name)
        self.patience.append(patience_seconds)
        self.now += self._seconds[task.name]
        return Answer(self._events.get(task.name, "passed"))  # type: ignore[arg-type]

    def close(self) -> None:
        return


Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Rows of these estimates and times, on code of that name -> those that were begun, in their order."""

    def begun(
        estimates: dict[str, float],
        seconds: dict[str, float],
        limit: float | None = None,
        resume: bool = False,
        code: str = "c0de",
        events: dict[str, str] | None = None,
    ) -> list[str]:
        worker = Told(seconds, events)
        monkeypatch.setattr("ninfer_core.bench.series.Worker", worker)
        tasks = [task(name, estimate) for name, estimate in estimates.items()]
        Series(tasks, Journal(tmp_path), code, print, lambda line: None, clock=worker.clock).run(limit, resume)
        return worker.asked

    return begun


ROWS = {"a": 10.0, "b": 40.0, "c": 10.0}


def test_no_row_is_begun_that_would_not_end_in_time(run: Run) -> None:
    assert run(ROWS, ROWS) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("limit", "begun"), [(9, []), (10, ["a"]), (49, ["a", "c"]), (50, ["a", "b"]), (60, ["a", "b", "c"])]
)
def test_what_still_fits_is_begun(limit: float, begun: list[str], run: Run) -> None:
    assert run(ROWS, ROWS, limit) == begun


def test_rows_that_take_longer_than_is_thought_make_the_others_be_thought_longer(run: Run) -> None:
    slow = {name: 2 * seconds for name, seconds in ROWS.items()}
    assert run(ROWS, slow, 99) == ["a", "c"]  # b is thought to take 80 then


def test_what_a_row_took_before_is_what_it_is_thought_to_take(run: Run) -> None:
    assert run(ROWS, {**ROWS, "b": 20.0}, code="old") == ["a", "b", "c"]
    assert run(ROWS, ROWS, 30, code="new") == ["a", "b"]


def test_what_passed_is_left_out_and_what_did_not_is_tried_last(run: Run) -> None:
    assert run(ROWS, ROWS, 25, events={"a": "wrong"}) == ["a", "c"]
    assert run(ROWS, ROWS, resume=True) == ["b", "a"]
    assert run(ROWS, ROWS, resume=True) == []
    assert run(ROWS, ROWS, resume=True, code="other") == ["a", "b", "c"]


def test_without_resume_everything_is_measured_again(run: Run) -> None:
    assert run(ROWS, ROWS) == run(ROWS, ROWS) == ["a", "b", "c"]


def test_patience_is_longer_than_what_is_thought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Told({"a": 1.0, "b": 1.0})
    monkeypatch.setattr("ninfer_core.bench.series.Worker", worker)
    tasks = [task("a", 10.0), task("b", 1000.0)]
    Series(tasks, Journal(tmp_path), "c0de", print, lambda line: None, clock=worker.clock).run()
    assert worker.patience == [120.0, 300.0]  # b is thought to take a tenth, as a did


CUT = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from measures_of_a_test import by_name
from ninfer_core.bench.journal import Journal
from ninfer_core.bench.records import EngineCases
from ninfer_core.bench.series import Series
from ninfer_core.bench.worker import Task
from ninfer_core.plan.options import ServeOptions

if __name__ == "__main__":
    cases = EngineCases((1,), (128,), (), ())
    names = ("first", "hanging", "last")
    tasks = [Task(name, f"--name {name}", 1.0, ServeOptions(device="cpu"), cases, Path(name)) for name in names]
    Series(tasks, Journal(Path(sys.argv[1])), "c0de", by_name, lambda line: print(line, flush=True)).run()
"""


def test_a_campaign_that_is_killed_goes_on_behind_what_it_has(tmp_path: Path, measures: ModuleType) -> None:
    """With nothing lost of what ended, and no process left behind."""
    (tmp_path / "cut.py").write_text(CUT)
    with subprocess.Popen([sys.executable, str(tmp_path / "cut.py"), str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        worker = next(int(line.split()[-1]) for line in process.stdout if line.startswith(b"hanging in"))
        process.kill()
    deadline = time.monotonic() + 10
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(worker)
    journal = Journal(tmp_path)
    standings = [journal.standing(name, f"--name {name}", "c0de") for name in ("first", "hanging", "last")]
    assert standings == ["passed", "cut", "new"]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_line_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note("a", "words", "c0de", "begun")
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"row":"a","words":"words","co')
    again = Journal(tmp_path)
    assert again.standing("a", "words", "c0de") == "cut"
    again.note("a", "words", "c0de", "passed", seconds=3.0, file="engine.json")
    found = Journal(tmp_path).last("a", "words", "c0de")
    assert found is not None and (found.event, found.seconds, found.file) == ("passed", 3.0, "engine.json")
    assert Journal(tmp_path).standing("a", "other words", "c0de") == "new"
    assert Journal(tmp_path).seconds("a", "words") == 3.0 and Journal(tmp_path).seconds("b", "words") is None
