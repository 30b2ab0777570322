"""The sample TOML file and the manual page of options, written from the options themselves.

`python -m ninfer_core.plan.option_documents` rewrites both in the repository it is run in.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from ninfer_core.plan.option_info import TABLE_TITLES, unit_and_range
from ninfer_core.plan.options import (
    default_text,
    facts_text,
    flag_name,
    key_name,
    option_defaults,
    option_infos,
    options_by_table,
    variable_name,
)

SAMPLE_FILE = "ninfer.example.toml"
MANUAL_FILE = "docs/options.md"
COMMENT_WIDTH = 100

SAMPLE_HEAD = """\
# Every option of `ninfer serve` and `ninfer plan`, as `--config FILE` or NINFER_CONFIG reads it.
# A flag goes before a NINFER_* variable, a variable before this file. Written from the options themselves:
# make changes there, not here.
"""
MANUAL_HEAD = """\
# Options

What `ninfer serve` and `ninfer plan` take. Every option is a flag, an environment variable and a key of the TOML file
that `--config FILE` or `NINFER_CONFIG` names ([ninfer.example.toml](../ninfer.example.toml) has them all). A flag goes
before a variable, a variable before the file, the file before the default. A switch has no value on the command line;
in the environment and in the file it is `true` or `false`. Unknown keys and unknown `NINFER_*` variables are errors,
`NINFER_PLUGINS` excepted, which says whose plugins may be loaded. Giving an option that is *not built yet* is an error
too. The contract column names the line of the serving contract that the option answers to.

This page is written from the options themselves.
"""


def sample_toml() -> str:
    """The sample file: every option as a comment that can be uncommented as it stands."""
    parts = [SAMPLE_HEAD]
    for table, names in options_by_table().items():
        parts.append(f"\n[{table}]\n" + "\n".join(_sample_entry(name) for name in names))
    return "".join(parts)


def manual_page() -> str:
    """The manual page: one table of options for each table of the file."""
    parts = [MANUAL_HEAD]
    for table, names in options_by_table().items():
        parts.append(f"\n## {TABLE_TITLES[table]}: `[{table}]`\n\n")
        parts.append("| flag | variable | key | default | range | contract | state | what it does |\n")
        parts.append("|---|---|---|---|---|---|---|---|\n")
        parts.extend(_manual_row(name) for name in names)
    return "".join(parts)


def _sample_entry(name: str) -> str:
    lines = [*textwrap.wrap(option_infos()[name].help, COMMENT_WIDTH), *textwrap.wrap(facts_text(name), COMMENT_WIDTH)]
    comment = "\n".join(f"# {line}" for line in lines)
    return f"{comment}\n#{key_name(name)} = {_literal(name)}\n"


def _literal(name: str) -> str:
    default = option_defaults()[name]
    if default is None:
        return option_infos()[name].example
    if isinstance(default, bool):
        return "true" if default else "false"
    return f'"{default}"' if isinstance(default, str) else str(default)


def _manual_row(name: str) -> str:
    info = option_infos()[name]
    flag = flag_name(name) if not info.metavar else f"{flag_name(name)} {info.metavar}"
    cells = (
        f"`{flag}`",
        f"`{variable_name(name)}`",
        f"`{key_name(name)}`",
        default_text(name),
        unit_and_range(info) if info.kind != "switch" else "",
        info.contract,
        "" if info.built else "not built yet",
        info.help,
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    Path(SAMPLE_FILE).write_text(sample_toml(), encoding="utf-8")
    Path(MANUAL_FILE).write_text(manual_page(), encoding="utf-8")
