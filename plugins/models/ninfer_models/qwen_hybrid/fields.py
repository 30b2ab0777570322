"""Reading of untyped config fields that goes on after a mistake, so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_NUMBER = 1e18
"""No number of a model is larger, and float32 holds its square."""

_MOST_SIZE = 1 << 31
"""No size of a model is larger: a hostile config cannot make later arithmetic absurd."""


class Fields:
    """One table of a config. What is wrong is added to `problems`, and a harmless stand-in is returned."""

    def __init__(self, raw: Mapping[str, object], prefix: str, problems: list[str]) -> None:
        self.raw = raw
        self.prefix = prefix
        self.problems = problems

    def wrong(self, name: str, wanted: str) -> None:
        if name in self.raw:
            self.problems.append(f"config field {self.prefix}{name} is {self.raw[name]!r}; it must be {wanted}")
        else:
            self.problems.append(f"config field {self.prefix}{name} is missing; it must be {wanted}")

    def size(self, name: str, *, default: int | None = None, least: int = 1, most: int = _MOST_SIZE) -> int:
        """An integer in [least, most]; required when there is no default."""
        value = self.raw.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.wrong(name, f"an integer of at least {least}" + (f" and at most {most}" if most < _MOST_SIZE else ""))
        return max(least, 1)

    def number(self, name: str, *, default: float | None = None, above: float, most: float = _MOST_NUMBER) -> float:
        """A number in (above, most], and so a finite one; required when there is no default."""
        value = self.raw.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= most:
            return float(value)
        limit = f" and at most {most:g}"
        self.wrong(name, f"a number above {above:g}{limit}")
        return min(above + 1.0, most)

    def table(self, name: str) -> Mapping[str, object] | None:
        """A nested table that may be absent or null."""
        value = self.raw.get(name)
        if value is None or isinstance(value, dict):
            return value
        self.wrong(name, "an object")
        return None

    def flag(self, name: str) -> bool | None:
        """A truth value that may be absent or null."""
        value = self.raw.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(name, "true or false")
        return None

    def token_ids(self, name: str) -> None:
        """One id or a list of ids, checked; it may be absent or null."""
        value = self.raw.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in listed):
            self.wrong(name, "a token id or a list of token ids")

    def must_equal(self, name: str, wanted: object) -> None:
        """A field that may be absent, and has one value that is supported."""
        if self.raw.get(name, wanted) != wanted:
            self.wrong(name, repr(wanted))

    def divides(self, part_name: str, part: int, whole_name: str, whole: int) -> None:
        if whole % part:
            self.problems.append(
                f"config field {self.prefix}{whole_name} ({whole}) is not a multiple of {part_name} ({part})"
            )
