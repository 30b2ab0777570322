"""Puts every option of the server on a click command, and hands the command one `ServeOptions`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ninfer_core.plan.option_info import TABLE_TITLES, OptionInfo
from ninfer_core.plan.option_sources import CONFIG_VARIABLE, load_options
from ninfer_core.plan.options import facts_text, flag_name, option_infos


class ServeOption(click.Option):
    """An option that knows which section of the help it belongs to."""

    section = "Other options"


class ServeCommand(click.Command):
    """A command whose help shows the server options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in TABLE_TITLES.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # Arguments stand in the usage line, and what they are in the text below it.
            if record is not None and not isinstance(parameter, click.Argument):
                title = parameter.section if isinstance(parameter, ServeOption) else ServeOption.section
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def serve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click callback: it is given `options`, a ServeOptions from flags, environment and file.

    Use it under `@click.command(cls=ServeCommand)`. Values stay text for click, so that everything that is wrong
    is reported together: PlanRejected out of the call, before the callback runs.
    """
    return some_serve_options(*option_infos())(function)


def some_serve_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`serve_options` for a command that has only the named ones; the others keep their defaults, or what the
    environment and the file say."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def with_options(config: Path | None, **arguments: Any) -> Any:
            flags = {name: arguments.pop(name) for name in names}
            given = {name: value for name, value in flags.items() if value is not None and value is not False}
            return function(options=load_options(given, os.environ, config), **arguments)

        command: Callable[..., Any] = with_options
        for name in reversed(names):
            command = _parameter(name, option_infos()[name])(command)
        return click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help=f"TOML file with options; flags and NINFER_* variables go before it. [{CONFIG_VARIABLE}]",
        )(command)

    return decorate


def _parameter(name: str, info: OptionInfo) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if name == "artifact":
        return click.argument(name, required=False, default=None, metavar="[ARTIFACT]")
    option_class = type("SectionOption", (ServeOption,), {"section": TABLE_TITLES[info.table]})
    if info.kind == "switch":
        return click.option(flag_name(name), name, cls=option_class, is_flag=True, default=None, help=help_text(name))
    return click.option(
        flag_name(name), name, cls=option_class, type=str, default=None, metavar=info.metavar, help=help_text(name)
    )


def help_text(name: str) -> str:
    """One option's help: what it does, then its facts in brackets."""
    return f"{option_infos()[name].help} [{facts_text(name)}]"
