"""The `ninfer` command. Every subcommand is imported when it runs, so that help and listings stay fast.

Exit codes: 0 done, 1 the command failed, 2 it was asked for something that cannot be, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from ninfer_core.api.errors import NinferError, StartupError


class CommandRow(NamedTuple):
    """Where a command lives (`module:object`), and its line in `ninfer --help`."""

    target: str
    help: str


COMMANDS: Mapping[str, CommandRow] = {
    "serve": CommandRow("ninfer_core.cli.serve:serve", "Serve an artifact over HTTP."),
    "plan": CommandRow("ninfer_core.cli.plan:plan", "Show the execution plan, every byte of it, without running it."),
    "plugins": CommandRow("ninfer_core.cli.plugins:plugins", "List, show and check plugins."),
    "convert": CommandRow("ninfer_core.cli.convert:convert", "Turn a Hugging Face directory into a .ninfer artifact."),
    "render": CommandRow("ninfer_core.cli.render:render", "Show the exact prompt of a request."),
    "inspect": CommandRow("ninfer_core.cli.inspect:inspect", "Show what is in an artifact."),
    "compare": CommandRow("ninfer_core.cli.compare:compare", "Show how far two artifacts or forms of one are apart."),
    "generate": CommandRow("ninfer_core.cli.generate:generate", "Answer one prompt on the terminal."),
    "parse": CommandRow("ninfer_core.cli.parse:parse", "Show how model text is read: reasoning, answer, tool calls."),
    "chat": CommandRow("ninfer_core.cli.chat:chat", "Talk to a model on the terminal."),
    "bench": CommandRow("ninfer_core.cli.bench:bench", "Measure the engine or a server, and check what was measured."),
}
TRACEBACK_FLAG = "--traceback"
INTERRUPTED = 130

_STANDARD_FILES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class LazyGroup(click.Group):
    """A group that knows its commands by a table and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module_name), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    TRACEBACK_FLAG,
    is_flag=True,
    expose_value=False,
    help="Show the traceback of an error. May stand anywhere on the line.",
)
@click.version_option(package_name="ninfer", prog_name="ninfer")
def ninfer() -> None:
    """Serve Qwen3.6 / Qwen3.8 hybrid models on one GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (None: the process's own) and return the exit code."""
    _hold_standard_files()
    words = list(sys.argv[1:] if arguments is None else arguments)
    words, show_traceback = _take_traceback_flag(words)
    try:
        result = ninfer.main(args=words, prog_name="ninfer", standalone_mode=False)
        _flush_output()
    except NinferError as error:
        if show_traceback:
            traceback.print_exception(error)
        click.echo(f"{error.code}: {error.message}", err=True)
        return error.exit_code if isinstance(error, StartupError) else 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        if not _came_from_output(error):
            raise
        _drop_output()
        if show_traceback:
            traceback.print_exception(error)
        if error.errno != errno.EPIPE:
            click.ClickException(f"the output cannot be written: {error.strerror}").show()
        return 1
    return result if isinstance(result, int) else 0


def serve_main() -> int:
    """`ninfer-serve ...` is `ninfer serve ...`."""
    return main(["serve", *sys.argv[1:]])


def _hold_standard_files() -> None:
    """Whoever started us may have closed some of the three. A connection would take the number, and be written to by
    whatever a library has to say."""
    while (number := os.open(os.devnull, os.O_RDWR)) < len(_STANDARD_FILES):
        # For the processes that we start as well.
        os.set_inheritable(number, True)
    os.close(number)
    for number, (name, mode) in enumerate(_STANDARD_FILES):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))


def _flush_output() -> None:
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()


def _came_from_output(error: OSError) -> bool:
    """Whether a write or flush of the output raised it: every command writes with click.echo. Other files fail in
    frames of their own."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code in (click.echo.__code__, _flush_output.__code__)


def _drop_output() -> None:
    """Give up what standard output still holds: else the interpreter would try again as it ends, and say so."""
    with contextlib.suppress(OSError):
        sys.stdout.close()


def _take_traceback_flag(words: list[str]) -> tuple[list[str], bool]:
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != TRACEBACK_FLAG]
    return kept + words[end:], len(kept) < end
