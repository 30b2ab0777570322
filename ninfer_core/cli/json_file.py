"""JSON files that a person wrote for a command, and what to say where they are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec


@contextmanager
def naming_file(path: Path, option: str) -> Iterator[None]:
    """What decoding or converting the file raises in here becomes a click.BadParameter of `option`."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise _bad(path, option, str(error)) from None
    except RecursionError:
        raise _bad(path, option, "it nests too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise _bad(path, option, f"it is not valid JSON: {error}") from None


def _bad(path: Path, option: str, problem: str) -> click.BadParameter:
    return click.BadParameter(f"{path}: {problem}", param_hint=option)
