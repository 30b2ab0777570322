"""From what was written to a typed value: one reading of text for flags and variables, one of TOML values, and the
range check that both share. Failures are ValueErrors whose message follows the option's name: `is 9, out of range`."""

from __future__ import annotations

import math
import re

from ninfer_core.plan.option_info import OptionInfo, SecretText

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
SIZE_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
LONGEST_NUMBER = 40
"""Characters of a number: Python reads longer digit strings slowly, and no range here needs more."""


def read_text(info: OptionInfo, written: str) -> object:
    """The value that a flag or a variable stands for. Raises ValueError."""
    if info.kind == "names":
        return check(info, tuple(name.strip() for name in written.split(",")))
    if info.kind == "switch":
        return _switch(written)
    if info.kind == "secret":
        return check(info, SecretText(written))
    return check(info, _scalar(info, written))


def read_toml(info: OptionInfo, value: object) -> object:
    """The value that a TOML value stands for. Raises ValueError."""
    if info.kind == "switch":
        if isinstance(value, bool):
            return value
        raise ValueError(f"is {_show(value)}, not true or false")
    if info.kind == "names":
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return check(info, tuple(value))
        raise ValueError(f'is {_show(value)}, not a list of strings such as ["one", "two"]')
    if info.kind == "secret" and isinstance(value, str):
        return check(info, SecretText(value))
    if isinstance(value, str) and info.kind in {"text", "path", "choice", "size", "capacity", "device"}:
        return check(info, _scalar(info, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return check(info, _number_from_toml(info, value))
    raise ValueError(f"is {_show(value)}, not {_kind_text(info)}")


def check(info: OptionInfo, value: object) -> object:
    """`value` when it is of the option's kind and in its range. Raises ValueError."""
    if info.kind in {"integer", "number", "size", "capacity", "device"}:
        return _check_number(info, value)
    if info.kind == "choice":
        if value not in info.choices:
            raise ValueError(f"is {_show(value)}, not one of its words")
        return value
    if info.kind == "switch":
        if not isinstance(value, bool):
            raise ValueError(f"is {_show(value)}, not true or false")
        return value
    return _check_words(info, value)


def _check_words(info: OptionInfo, value: object) -> object:
    if info.kind == "names":
        if value in ((), ("",)):
            raise ValueError("names nothing")
        if not isinstance(value, tuple) or not all(isinstance(name, str) and name for name in value):
            raise ValueError(f"is {_show(value)}, not one or more names")
        if len(set(value)) != len(value):
            raise ValueError(f"names {_show(max(value, key=value.count))} twice")
        unknown = next((name for name in value if info.choices and name not in info.choices), None)
        if unknown is not None:
            raise ValueError(f"names {_show(unknown)}, not {', '.join(info.choices)}")
        return value
    written = value.reveal() if isinstance(value, SecretText) else value
    if not isinstance(written, str):
        raise ValueError(f"is {_show(value)}, not {_kind_text(info)}")
    if not written.strip():
        raise ValueError("is empty")
    if "\x00" in written:
        raise ValueError("holds a zero byte")
    if info.kind == "secret" and (written != written.strip() or not written.isprintable()):
        raise ValueError("begins or ends with white space, or holds a character that no HTTP header can carry")
    return value


def _check_number(info: OptionInfo, value: object) -> object:
    if (info.kind == "capacity" and value == "auto") or (info.kind == "device" and value == "cpu"):
        return value
    wanted: tuple[type, ...] = (int, float) if info.kind == "number" else (int,)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"is {_show(value)}, not {_kind_text(info)}")
    assert isinstance(value, int | float) and info.minimum is not None and info.maximum is not None
    in_range = info.minimum <= value <= info.maximum
    if not in_range:
        bound = f"at least {info.minimum}" if value < info.minimum else f"at most {info.maximum}"
        raise ValueError(f"is {_show(value)}, out of range: {bound}")
    if info.multiple is not None and value % info.multiple:
        raise ValueError(f"is {_show(value)}, not a multiple of {info.multiple}")
    return float(value) if info.kind == "number" else value


def _scalar(info: OptionInfo, written: str) -> object:
    if info.kind == "integer":
        return _integer(info, written)
    if info.kind == "number":
        return _number(info, written)
    if info.kind == "size":
        return _size(info, written)
    if (info.kind == "capacity" and written == "auto") or (info.kind == "device" and written == "cpu"):
        return written
    return _integer(info, written) if info.kind in {"capacity", "device"} else written


def _integer(info: OptionInfo, written: str) -> int:
    if len(written) > LONGEST_NUMBER or not re.fullmatch(r"[+-]?\d+(_\d+)*", written.strip(), re.ASCII):
        raise ValueError(f"is {_show(written)}, not {_kind_text(info)}")
    return int(written)


def _number(info: OptionInfo, written: str) -> float:
    try:
        value = float(written) if len(written) <= LONGEST_NUMBER else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"is {_show(written)}, not {_kind_text(info)}")
    return value


def _size(info: OptionInfo, written: str) -> int:
    match = SIZE_PATTERN.fullmatch(written.strip()) if len(written) <= LONGEST_NUMBER else None
    if match is None or match[2].lower() not in SIZE_UNITS:
        raise ValueError(f"is {_show(written)}, not {_kind_text(info)}")
    return int(float(match[1]) * SIZE_UNITS[match[2].lower()]) if "." in match[1] or match[2] else int(match[1])


def _switch(written: str) -> bool:
    word = written.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"is {_show(written)}, not true or false")
    return word in TRUE_WORDS


def _number_from_toml(info: OptionInfo, value: float) -> int | float:
    if info.kind == "number":
        if math.isfinite(value):
            return float(value)
    elif isinstance(value, int) and info.kind in {"integer", "size", "capacity", "device"}:
        return value
    raise ValueError(f"is {_show(value)}, not {_kind_text(info)}")


def _kind_text(info: OptionInfo) -> str:
    words = {
        "integer": "a whole number",
        "number": "a number",
        "size": "a number of bytes",
        "capacity": "a whole number or auto",
        "device": "a whole number or cpu",
    }
    return words.get(info.kind, "a string")


def _show(value: object) -> str:
    if isinstance(value, SecretText):
        return repr(value)
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
