"""`ninfer generate`: one answer on the terminal, the engine inline."""

from __future__ import annotations

from pathlib import Path

import click

from ninfer_core.api.request import GenerationRequest, Message, TextPart
from ninfer_core.cli.local import (
    TerminalPrinter,
    local_model,
    local_options,
    report_line,
    thinking_options,
)
from ninfer_core.cli.messages_file import read_messages
from ninfer_core.cli.options import ServeCommand
from ninfer_core.plan.options import ServeOptions


@click.command(cls=ServeCommand)
@local_options
@click.option("--prompt", metavar="TEXT", help="The user's message.")
@click.option(
    "--messages",
    "messages_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A conversation: a JSON array of messages, or an object with 'messages'.",
)
@click.option("--system", metavar="TEXT", help="A system message before --prompt.")
@click.option("--max-new", type=click.IntRange(min=0), metavar="N", help="Most tokens of the answer.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End before this text; may be repeated.")
@click.option("--reasoning-effort", metavar="WORD", help="none, or an effort that the model's template has.")
def generate(
    options: ServeOptions,
    prompt: str | None,
    messages_file: Path | None,
    system: str | None,
    max_new: int | None,
    stop: tuple[str, ...],
    reasoning_effort: str | None,
) -> None:
    """Answer one prompt on the terminal.

    The answer goes to stdout as it is made; reasoning and a one-line report go to stderr, and the log from
    `warning` up unless --log-level says otherwise.
    """
    request = GenerationRequest(
        messages=_messages(prompt, messages_file, system),
        template=thinking_options(reasoning_effort),
        max_output_tokens=max_new,
        stop=_stop(stop),
    )
    printer = TerminalPrinter()
    with local_model(options) as model:
        try:
            _, finished = model.answer(request, printer.write)
        finally:
            printer.end_line()
    click.echo(report_line(finished), err=True)


def _messages(prompt: str | None, messages_file: Path | None, system: str | None) -> tuple[Message, ...]:
    if (prompt is None) == (messages_file is None):
        raise click.UsageError("give exactly one of --prompt and --messages")
    if messages_file is not None:
        if system is not None:
            raise click.UsageError("--system belongs to --prompt; a --messages file has its own system message")
        return read_messages(messages_file)
    assert prompt is not None
    texts = [("system", system), ("user", prompt)]
    return tuple(
        Message(role="system" if role == "system" else "user", content=(TextPart(text),))
        for role, text in texts
        if text is not None
    )


def _stop(stop: tuple[str, ...]) -> tuple[str, ...]:
    if not all(stop):
        raise click.BadParameter("an empty text would match everywhere", param_hint="--stop")
    return stop
