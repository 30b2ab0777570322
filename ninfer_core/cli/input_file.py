"""Files that a command is told to read: they may be pipes or devices, so that only reading says how long they are."""

from __future__ import annotations

from pathlib import Path

import click

LARGEST_INPUT_BYTES = 64 << 20
"""Far more than a context can hold; what is longer was not meant for a command."""


def read_input(path: Path, option: str) -> bytes:
    """The whole file. Raises a click.BadParameter of `option` where it cannot be read or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_INPUT_BYTES + 1)
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise click.BadParameter(f"{path}: {problem}", param_hint=option) from None
    if len(content) > LARGEST_INPUT_BYTES:
        problem = f"it is over {LARGEST_INPUT_BYTES} bytes; give less"
        raise click.BadParameter(f"{path}: {problem}", param_hint=option)
    return content
