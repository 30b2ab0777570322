"""The operational log: `YYYY-MM-DD HH:MM:SS.mmm LEVEL message` on stderr, one line a record (contract OLOG-1).

A message is an event name and its fields, `name=value`. Values are escaped, so that no record can span lines or
carry control codes, whoever chose the value.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO, cast

import structlog

Log = structlog.typing.FilteringBoundLogger

LEVELS: Mapping[str, int] = {
    "trace": 0,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL,
}
"""Words of `--log-level` (contract OPT-12) and the lowest level that each lets through; `off` drops that too."""


_MAX_CAUSES = 8


def create_log(level: str = "info", stream: TextIO | None = None, *, tracebacks: bool = True) -> Log:
    """A logger of its own: nothing is configured globally. `stream` None is the process's stderr."""
    render = _render if tracebacks else _render_line
    return cast(
        "Log",
        structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr if stream is None else stream),
            processors=[_drop if level == "off" else render],
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
            cache_logger_on_first_use=True,
        ),
    )


def forward_standard_logging(name: str, log: Log) -> None:
    """Records of the standard library's logger `name` (a library's) go to `log` from warnings up, and nowhere else."""
    library = logging.getLogger(name)
    library.handlers = [_Forwarder(log)]
    library.setLevel(logging.WARNING)
    library.propagate = False


class _Forwarder(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(
            record.levelno, "library_message", source=record.name, text=record.getMessage(), exc_info=record.exc_info
        )


def _render(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    now = datetime.datetime.now()
    timestamp = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d}"
    exception = event.pop("exc_info", None)
    words = [str(event.pop("event")), *(f"{name}={_value(value)}" for name, value in event.items())]
    line = f"{timestamp} {method.upper()} {' '.join(words)}"
    return line if not exception else f"{line}\n{_traceback(exception)}"


def _render_line(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    """Without what an exception tells."""
    event.pop("exc_info", None)
    return _render(logger, method, event)


def _drop(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent


def _value(value: object) -> str:
    text = _rounded(value) if isinstance(value, float) else str(value)
    if text and text.isascii() and text.isprintable() and not set(text) & {" ", '"', "="}:
        return text
    return json.dumps(text)


def _rounded(value: float) -> str:
    """Three digits, and no exponent for anything a person would write without one (contract OLOG-4)."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.6f}".rstrip("0").rstrip(".")


def _traceback(exception: object) -> str:
    """Where it happened, the first cause first, without the exceptions' own texts: those may quote what a client
    sent."""
    error = exception[1] if isinstance(exception, tuple) else exception
    if not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    chain: list[BaseException] = []
    while error is not None and len(chain) < _MAX_CAUSES and not any(error is known for known in chain):
        chain.append(error)
        error = _cause(error)
    return "\nwhich led to\n".join(_frames(each) for each in reversed(chain))


def _cause(error: BaseException) -> BaseException | None:
    """Of a group its first member, which the others mostly follow from."""
    if isinstance(error, BaseExceptionGroup):
        first: BaseException = error.exceptions[0]
        return first
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _frames(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    return f"{frames}\n{type(error).__name__}".lstrip("\n")
