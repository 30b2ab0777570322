"""`ninfer chat`: a conversation on the terminal, the engine inline."""

from __future__ import annotations

import contextlib

import click

from ninfer_core.api.errors import RequestError
from ninfer_core.api.request import GenerationRequest, Message, TextPart
from ninfer_core.cli.local import (
    LocalModel,
    TerminalPrinter,
    local_model,
    local_options,
    report_line,
    thinking_options,
)
from ninfer_core.cli.options import ServeCommand
from ninfer_core.plan.options import ServeOptions

HELP = "/reset forgets the conversation, /quit or Ctrl-D ends, Ctrl-C stops an answer."


@click.command(cls=ServeCommand)
@local_options
@click.option("--system", metavar="TEXT", help="A system message that stays in front of the conversation.")
@click.option("--reasoning-effort", metavar="WORD", help="none, or an effort that the model's template has.")
def chat(options: ServeOptions, system: str | None, reasoning_effort: str | None) -> None:
    """Talk to a model on the terminal.

    /reset forgets the conversation, /quit or Ctrl-D ends; Ctrl-C stops the answer that is running and forgets its
    question.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives `input` line editing and a history, where the platform has it

    opening = () if system is None else (Message(role="system", content=(TextPart(system),)),)
    with local_model(options) as model:
        click.echo(f"{model.prepared.plan.identity.model_id}. {HELP}", err=True)
        history = opening
        while (line := _read_line()) is not None:
            if line == "/reset":
                history = opening
            elif line.startswith("/"):
                click.echo(HELP, err=True)
            elif line:
                asked = (*history, Message(role="user", content=(TextPart(line),)))
                answer = _answer(model, asked, reasoning_effort)
                history = history if answer is None else (*asked, answer)


def _read_line() -> str | None:
    """One trimmed line; None at the end of the conversation."""
    try:
        line = input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        click.echo(err=True)
        return None
    return None if line == "/quit" else line


def _answer(model: LocalModel, messages: tuple[Message, ...], reasoning_effort: str | None) -> Message | None:
    """The model's turn, or None when there is none to keep."""
    printer = TerminalPrinter()
    request = GenerationRequest(messages=messages, template=thinking_options(reasoning_effort))
    try:
        message, finished = model.answer(request, printer.write)
    except KeyboardInterrupt:
        printer.end_line()
        click.echo("stopped", err=True)
        return None
    except RequestError as error:
        printer.end_line()
        click.echo(f"{error.code}: {error.message}", err=True)
        return None
    printer.end_line()
    click.secho(report_line(finished), dim=True, err=True)
    return message
