from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from ninfer_core.api import RequestError, StartFailed
from ninfer_core.cli import main as main_module
from ninfer_core.cli.main import COMMANDS, CommandRow, main


class Failing(ModuleType):
    """A module with a command that prints its arguments and raises what the test has put into `error`."""

    error: BaseException

    def __init__(self) -> None:
        super().__init__("failing_command")

        @click.command()
        @click.argument("words", nargs=-1)
        def fail(words: tuple[str, ...]) -> None:
            click.echo(" ".join(words))
            raise self.error

        self.fail = fail


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """`ninfer fail` is the only command there is."""
    module = Failing()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(main_module, "COMMANDS", {"fail": CommandRow(f"{module.__name__}:fail", "Fail.")})
    return module


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, row in COMMANDS.items():
        assert f"  {name} " in out and row.help in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_row_of_the_table_leads_to_a_command_whose_help_works(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module, _, attribute = COMMANDS[name].target.partition(":")
    assert isinstance(getattr(importlib.import_module(module), attribute), click.Command)
    assert main([name, "--help"]) == 0
    assert f"Usage: ninfer {name}" in capsys.readouterr().out


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serv"]) == 2
    assert "No such command 'serv'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (StartFailed("no memory"), 1, "start_failed: no memory"),
        (RequestError("too long", code="too_long"), 1, "too_long: too long"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
    ],
)
def test_an_error_becomes_a_line_and_an_exit_code(
    error: BaseException, code: int, line: str, failing: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = error
    assert main(["fail"]) == code
    assert capsys.readouterr().err.strip() == line


def test_the_traceback_is_shown_on_request_wherever_the_flag_stands(
    failing: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = StartFailed("no memory")
    for words in (["--traceback", "fail", "x"], ["fail", "x", "--traceback"]):
        assert main(words) == 1
        captured = capsys.readouterr()
        assert captured.out == "x\n"
        assert "Traceback" in captured.err and captured.err.endswith("start_failed: no memory\n")


def test_after_two_dashes_the_flag_is_an_argument(failing: Failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing.error = StartFailed("no memory")
    main(["fail", "--", "--traceback"])
    captured = capsys.readouterr()
    assert captured.out == "--traceback\n" and "Traceback" not in captured.err


def test_a_mistake_of_ours_is_not_hidden(failing: Failing) -> None:
    failing.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_the_second_name_of_the_command_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ninfer-serve", "--help"])
    assert main_module.serve_main() == 0
    assert "Usage: ninfer serve" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--help"], ["plugins", "list"]], ids=" ".join)
def test_a_reader_that_went_away_ends_the_command_without_noise(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "ninfer_core", *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["plan"], ["plan", "--json"]], ids=" ".join)
def test_output_that_cannot_be_written_is_a_line_and_an_exit_code(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ninfer_core", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_the_place_of_a_standard_one_that_is_closed(closed: str) -> None:
    program = """
import os, sys
from ninfer_core.cli.main import main
main(["--help"])
held = sys.stdin and sys.stdout and sys.stderr and os.open(os.devnull, 0) > 2
sys.exit(0 if held and all(map(os.get_inheritable, range(3))) else 3)
"""
    done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program], timeout=60)
    assert done.returncode == 0


def test_another_file_that_cannot_be_written_is_not_taken_for_the_output(failing: Failing) -> None:
    failing.error = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError):
        main(["fail"])
