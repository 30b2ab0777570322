"""Reading of a draft config that goes on after a mistake, so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_SIZE = 1 << 24
"""No size of a drafter is larger: a hostile config cannot make later arithmetic absurd."""

_MOST_NUMBER = 1e18
"""No number of a drafter is larger, and float32 holds its square."""


class Fields:
    """The keys of a draft config. What is wrong is added to `problems`, and a harmless stand-in is returned.

    Keys have moved over time: `inner`, the table `dflash_config`, is looked into first, then the top level.
    """

    def __init__(self, raw: Mapping[str, object]) -> None:
        inner = raw.get("dflash_config")
        self.problems: list[str] = []
        self.inner: Mapping[str, object] = inner if isinstance(inner, dict) else {}
        self.raw = raw
        if inner is not None and not isinstance(inner, dict):
            self.wrong("dflash_config", "an object")

    def value(self, name: str) -> object:
        """The value of a key wherever it stands; None where it is absent or null."""
        found = self.inner.get(name)
        return self.raw.get(name) if found is None else found

    def wrong(self, name: str, wanted: str) -> None:
        value = self.value(name)
        found = "missing" if value is None else repr(value)
        self.problems.append(f"{name} is {found}; it must be {wanted}")

    def size(self, name: str, *, least: int = 1, most: int = _MOST_SIZE) -> int:
        """An integer in [least, most]."""
        value = self.value(name)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.wrong(name, f"an integer of at least {least}" + (f" and at most {most}" if most < _MOST_SIZE else ""))
        return max(least, 1)

    def positive(self, name: str, default: float | None = None) -> float:
        """A number in (0, 1e18], and so a finite one; required where there is no default."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST_NUMBER:
            return float(value)
        self.wrong(name, f"a number above 0 and at most {_MOST_NUMBER:g}")
        return 1.0

    def flag(self, name: str) -> bool | None:
        """A truth value that may be absent or null."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(name, "true or false")
        return None

    def fixed(self, name: str, wanted: object) -> None:
        """A key that may be absent or null, and has one value that is supported."""
        value = self.value(name)
        if value is not None and value != wanted:
            self.wrong(name, repr(wanted))

    def only(self, known: frozenset[str], inner_known: frozenset[str]) -> None:
        """Keys that nobody here knows may change what the numbers mean."""
        inner = [f"dflash_config.{key}" for key in sorted(set(self.inner) - inner_known)]
        unknown = sorted(set(self.raw) - known) + inner
        if unknown:
            self.problems.append(f"{', '.join(unknown)}: not known to this reader, so what it changes is not either")
