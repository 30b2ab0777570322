from __future__ import annotations

import io
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_core.telemetry import LEVELS, create_log, forward_standard_logging


@pytest.mark.contract("OLOG-1")
def test_the_form_of_a_record() -> None:
    stream = io.StringIO()
    create_log("info", stream).warning("request_done", id=3, seconds=1.23456, text="two words")
    pattern = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING request_done id=3 seconds=1\.23 text="two words"\n'
    assert re.fullmatch(pattern, stream.getvalue())


@pytest.mark.contract("OPT-12")
@pytest.mark.parametrize("level", LEVELS)
def test_levels_let_through_what_they_say(level: str) -> None:
    stream = io.StringIO()
    log = create_log(level, stream)
    for name in ("debug", "info", "warning", "error", "critical"):
        getattr(log, name)(f"event_{name}")
    shown = [word for word in ("debug", "info", "warning", "error", "critical") if f"event_{word}" in stream.getvalue()]
    order = ["debug", "info", "warning", "error", "critical"]
    expected = {"trace": order, "off": []}.get(level) if level in ("trace", "off") else order[order.index(level) :]
    assert shown == expected


@pytest.mark.contract("OLOG-3", "OLOG-5")
@given(st.text())
def test_no_value_can_break_a_line_or_carry_control_codes(text: str) -> None:
    stream = io.StringIO()
    create_log("info", stream).info("event", value=text)
    record = stream.getvalue()
    assert record.endswith("\n") and record[:-1].isprintable() and record.isascii()


@pytest.mark.contract("OLOG-5")
def test_a_traceback_shows_where_and_not_what() -> None:
    stream = io.StringIO()
    log = create_log("info", stream)
    secret = "".join(["what ", "a client ", "sent"])
    try:
        raise ValueError(secret)
    except ValueError as error:
        log.error("request_broken", exc_info=True)
        log.error("engine_failed", exc_info=error)
    text = stream.getvalue()
    assert text.count("test_logging.py") == 2 and text.count("\nValueError\n") == 2
    assert secret not in text


def fail_first(secret: str) -> None:
    raise KeyError(secret)


def fail_second(secret: str, *, hides: bool) -> None:
    try:
        fail_first(secret)
    except KeyError as error:
        if hides:
            raise ValueError(secret) from None
        raise ValueError(secret) from error


@pytest.mark.contract("OLOG-5")
def test_a_traceback_begins_where_it_all_began() -> None:
    stream = io.StringIO()
    log = create_log("info", stream)
    secret = "".join(["what ", "a client ", "sent"])
    try:
        try:
            fail_second(secret, hides=False)
        except ValueError:
            raise RuntimeError(secret)  # noqa: B904 - the context alone
    except RuntimeError as error:
        log.error("request_broken", exc_info=error)
    text = stream.getvalue()
    places = [text.index(f"\n{name}\n") for name in ("KeyError", "ValueError", "RuntimeError")]
    assert places == sorted(places) and "in fail_first" in text and text.count("which led to") == 2
    assert secret not in text.replace("raise ", "")


@pytest.mark.contract("OLOG-5")
def test_a_cause_that_is_hidden_is_not_shown_and_a_circle_ends() -> None:
    stream = io.StringIO()
    log = create_log("info", stream)
    with pytest.raises(ValueError, match="x") as hidden:
        fail_second("x", hides=True)
    log.error("event", exc_info=hidden.value)
    assert "KeyError\n" not in stream.getvalue()
    first, second = RuntimeError(), RuntimeError()
    first.__cause__, second.__cause__ = second, first
    log.error("event", exc_info=first)
    log.error("event", exc_info=ExceptionGroup("x", [OSError(), TypeError()]))
    assert stream.getvalue().endswith("OSError\nwhich led to\nExceptionGroup\n")
    assert stream.getvalue().count("\nwhich led to\n") == 2


def test_a_librarys_warnings_take_the_same_form() -> None:
    stream = io.StringIO()
    forward_standard_logging("another.package", create_log("info", stream))
    logging.getLogger("another.package.part").info("not this")
    logging.getLogger("another.package.part").warning("but %s", "this")
    assert 'WARNING library_message source=another.package.part text="but this"' in stream.getvalue()
    assert "not this" not in stream.getvalue()
