"""Puts every option of the server on a click command, and hands the command one `ServeOptions`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ninfer_core.plan.option_info import OptionInfo, range_text
from ninfer_core.plan.option_sources import CONFIG_VARIABLE, load_options
from ninfer_core.plan.options import flag_name, option_defaults, option_infos

TABLE_TITLES = {
    "model": "Model",
    "server": "Server",
    "engine": "Engine",
    "speculation": "Speculative decoding",
    "cache": "Prefix cache",
    "media": "Media",
    "responses": "Stored responses",
    "thinking": "Thinking and tools",
    "sampling": "Sampling",
    "logging": "Logging",
}
"""Sections of the help text, in this order; the keys are the tables of the TOML file."""


class ServeOption(click.Option):
    """An option that knows which section of the help it belongs to."""

    section = "Other options"


class ServeCommand(click.Command):
    """A command whose help shows the server options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in TABLE_TITLES.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
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

    @functools.wraps(function)
    def with_options(config: Path | None, **arguments: Any) -> Any:
        flags = {name: arguments.pop(name) for name in option_infos()}
        given = {name: value for name, value in flags.items() if value is not None and value is not False}
        return function(options=load_options(given, os.environ, config), **arguments)

    command: Callable[..., Any] = with_options
    for name, info in reversed(tuple(option_infos().items())):
        command = _parameter(name, info)(command)
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"TOML file with options; flags and NINFER_* variables go before it. [{CONFIG_VARIABLE}]",
    )(command)


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
    """One option's help: what it does, then range, default and state in brackets."""
    info = option_infos()[name]
    notes = [f"{range_text(info)} {info.unit}".strip()] if info.kind not in {"switch", "size"} else []
    if info.kind != "switch":
        notes.append(f"default: {default_text(name)}")
    if not info.built:
        notes.append("not built yet")
    shown = "; ".join(note for note in notes if note)
    return f"{info.help} [{shown}]" if shown else info.help


def default_text(name: str) -> str:
    """How the default of an option reads."""
    info, default = option_infos()[name], option_defaults()[name]
    if default is None:
        return info.default
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default)
