from __future__ import annotations

import importlib

import click
import pytest

from ninfer_core.api import RequestError, StartFailed
from ninfer_core.cli import main as main_module
from ninfer_core.cli.main import COMMANDS, CommandRow, main


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Stands `ninfer plan` in for a command that raises what the test puts into FAILURES."""
    monkeypatch.setattr(main_module, "COMMANDS", {"fail": CommandRow(f"{__name__}:fail", "Fail.")})
    monkeypatch.setitem(__import__("sys").modules, __name__, _This)
    return monkeypatch


class _This:
    error: BaseException = RuntimeError()

    @staticmethod
    @click.command()
    @click.argument("words", nargs=-1)
    def fail(words: tuple[str, ...]) -> None:
        click.echo(" ".join(words))
        raise _This.error


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


@pytest.mark.usefixtures("fails_with")
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
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_This, "error", error)
    assert main(["fail"]) == code
    assert capsys.readouterr().err.strip() == line


@pytest.mark.usefixtures("fails_with")
def test_the_traceback_is_shown_on_request_wherever_the_flag_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_This, "error", StartFailed("no memory"))
    for words in (["--traceback", "fail", "x"], ["fail", "x", "--traceback"]):
        assert main(words) == 1
        captured = capsys.readouterr()
        assert captured.out == "x\n"
        assert "Traceback" in captured.err and captured.err.endswith("start_failed: no memory\n")


@pytest.mark.usefixtures("fails_with")
def test_after_two_dashes_the_flag_is_an_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_This, "error", StartFailed("no memory"))
    main(["fail", "--", "--traceback"])
    captured = capsys.readouterr()
    assert captured.out == "--traceback\n" and "Traceback" not in captured.err


@pytest.mark.usefixtures("fails_with")
def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_This, "error", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_the_second_name_of_the_command_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ninfer-serve", "--help"])
    assert main_module.serve_main() == 0
    assert "Usage: ninfer serve" in capsys.readouterr().out
