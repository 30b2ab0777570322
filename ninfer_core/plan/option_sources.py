"""Where options come from: flags over environment variables over a TOML file over defaults. Everything that is wrong
in any of them is reported at once, with the place it was written."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.plan.option_info import OptionInfo, range_text
from ninfer_core.plan.option_values import check, read_text, read_toml
from ninfer_core.plan.options import ServeOptions, flag_name, key_name, option_infos, options_by_table, variable_name

CONFIG_VARIABLE = "NINFER_CONFIG"
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "NINFER_PLUGINS"})
"""Variables with the prefix that are no options: the file's name, and the trust filter of the plugin registry."""
LARGEST_FILE_BYTES = 1 << 20


@dataclass(slots=True)
class _Collected:
    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def put(self, name: str, origin: str, value: object) -> None:
        self.values[name] = value
        self.origins[name] = origin


def load_options(
    flags: Mapping[str, str | bool], environment: Mapping[str, str], config: Path | None = None
) -> ServeOptions:
    """All options from all sources.

    `flags` has what was given on the command line, by field name, as text (True for a switch). `config` falls back
    to the variable NINFER_CONFIG. Raises PlanRejected with every bad value, unknown key and unknown variable.
    """
    collected = _Collected()
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    if config is not None:
        _read_file(config, collected)
    _read_environment(environment, collected)
    _read_flags(flags, collected)
    if collected.problems:
        raise PlanRejected(collected.problems)
    return ServeOptions(**collected.values, origins=collected.origins)  # type: ignore[arg-type]


def check_ranges(options: ServeOptions) -> None:
    """For options that were made by code and not by `load_options`. Raises PlanRejected with every value that is out
    of its range."""
    if problems := _range_problems(options):
        raise PlanRejected(problems)


def _range_problems(options: ServeOptions) -> list[Problem]:
    problems = []
    for name, info in option_infos().items():
        value = getattr(options, name)
        if value is None:
            continue
        try:
            check(info, value)
        except ValueError as error:
            problems.append(_invalid(info, name, options.origin(name), str(error)))
    return problems


def _read_flags(flags: Mapping[str, str | bool], collected: _Collected) -> None:
    for name, written in flags.items():
        info = option_infos()[name]
        if isinstance(written, bool):
            collected.put(name, flag_name(name), written)
            continue
        try:
            collected.put(name, flag_name(name), read_text(info, written))
        except ValueError as error:
            collected.problems.append(_invalid(info, name, flag_name(name), str(error)))


def _read_environment(environment: Mapping[str, str], collected: _Collected) -> None:
    names = {variable_name(name): name for name in option_infos()}
    for variable, written in sorted(environment.items()):
        if not variable.startswith("NINFER_") or variable in OTHER_VARIABLES:
            continue
        name = names.get(variable)
        if name is None:
            collected.problems.append(_unknown(variable, "environment variable", names.keys() | OTHER_VARIABLES))
            continue
        try:
            collected.put(name, variable, read_text(option_infos()[name], written))
        except ValueError as error:
            collected.problems.append(_invalid(option_infos()[name], name, variable, str(error)))


def _read_file(path: Path, collected: _Collected) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            raise ValueError(f"it is larger than {LARGEST_FILE_BYTES} bytes")
        text = content.decode()
        document = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        collected.problems.append(
            Problem(
                code="config_unreadable",
                message=f"{path} cannot be read: {reason}",
                remedy="give a TOML file such as ninfer.example.toml",
            )
        )
        return
    lines = _lines_by_key(text)
    by_table = _names_by_table()
    for table, keys in document.items():
        if table not in by_table:
            collected.problems.append(_unknown_table(f"{path}:{_line(lines, table, keys)}", table, by_table))
        elif not isinstance(keys, dict):
            origin = f"{path}:{_line(lines, table, keys)}"
            collected.problems.append(_problem("option_unknown", f"{origin} {table}: is a table", f"write [{table}]"))
        else:
            _read_table(path, table, keys, lines, collected)


def _read_table(
    path: Path, table: str, keys: Mapping[str, object], lines: Mapping[tuple[str, str], int], collected: _Collected
) -> None:
    names = _names_by_table()[table]
    for key, value in keys.items():
        line = lines.get((table, key))
        place = f"{path}:{line}" if line is not None else str(path)
        name = names.get(key)
        if name is None:
            collected.problems.append(_unknown_key(f"{place} {table}.{key}", table, key))
            continue
        try:
            collected.put(name, f"{place} {key}", read_toml(option_infos()[name], value))
        except ValueError as error:
            collected.problems.append(_invalid(option_infos()[name], name, f"{place} {key}", str(error)))


def _names_by_table() -> dict[str, dict[str, str]]:
    """Field names by key, by table."""
    return {table: {key_name(name): name for name in names} for table, names in options_by_table().items()}


def _lines_by_key(text: str) -> dict[tuple[str, str], int]:
    """Line of each `key = ...` by (table, key), and of each table header by (table, "")."""
    return dict(_scan(text))


def _scan(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([\w-]+)\s*\]", line):
            table = header[1]
            yield (table, ""), number
        elif key := re.match(r"""\s*["']?([\w-]+)["']?\s*=""", line):
            yield (table, key[1]), number


def _line(lines: Mapping[tuple[str, str], int], table: str, keys: object) -> int:
    place = (table, "") if isinstance(keys, dict) else ("", table)
    return lines.get(place, 1)


def _problem(code: str, message: str, remedy: str) -> Problem:
    return Problem(code=code, message=message, remedy=remedy)


def _invalid(info: OptionInfo, name: str, origin: str, reason: str) -> Problem:
    legal = range_text(info)
    unit = f" ({info.unit})" if info.unit and info.kind != "size" else ""
    remedy = f"{flag_name(name)} takes {legal}{unit}" if legal else f"give {flag_name(name)} a value or leave it out"
    return _problem("option_invalid", f"{origin} {reason}", remedy)


def _unknown(word: str, what: str, known: Iterable[str]) -> Problem:
    return _problem("option_unknown", f"{what} {word} is no option", near_miss(word, known) or "leave it out")


def _unknown_table(origin: str, table: str, by_table: Mapping[str, Mapping[str, str]]) -> Problem:
    home = next((home for home, names in by_table.items() if table in names), None)
    if home is not None:
        return _problem("option_unknown", f"{origin} {table}: stands outside its table", f"move it under [{home}]")
    remedy = near_miss(table, by_table) or f"the tables are {', '.join(by_table)}"
    return _problem("option_unknown", f"{origin} {table}: is no table of options", remedy)


def _unknown_key(origin: str, table: str, key: str) -> Problem:
    by_table = _names_by_table()
    home = next((home for home, names in by_table.items() if key in names), None)
    if home is not None:
        return _problem("option_unknown", f"{origin}: stands in the wrong table", f"move it under [{home}]")
    known = {other for names in by_table.values() for other in names}
    remedy = near_miss(key, known) or f"the keys of [{table}] are {', '.join(by_table[table])}"
    return _problem("option_unknown", f"{origin}: is no option", remedy)


def near_miss(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or nothing."""
    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"did you mean '{close[0]}'?" if close else ""
