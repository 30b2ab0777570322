"""How problems of an artifact are put into lines that can be read, however many there are and whatever they quote."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PROBLEM_LINES = 40
"""More lines than a screen holds help nobody: the rest is counted."""

_MAX_NAME_CHARACTERS = 96


def quoted(name: str) -> str:
    """A name out of a file, safe to print: control characters and lone surrogates escaped, its length bounded."""
    return repr(name if len(name) <= _MAX_NAME_CHARACTERS else name[:_MAX_NAME_CHARACTERS] + "...")


def bounded(lines: Sequence[str], limit: int = MAX_PROBLEM_LINES) -> list[str]:
    """At most `limit` lines and one that says how many more there are."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"and {len(lines) - limit} more"]


def some(names: Sequence[str], limit: int = 4) -> str:
    """The first few names, quoted, and how many more there are."""
    listed = ", ".join(quoted(name) for name in names[:limit])
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"
