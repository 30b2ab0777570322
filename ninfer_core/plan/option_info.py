"""What is known of one option besides its value: range, unit, help, contract line. Flags, environment variables,
TOML keys, the sample file and the manual page are all generated from this."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

OptionKind = Literal[
    "text", "secret", "path", "integer", "number", "switch", "choice", "names", "size", "capacity", "device"
]
"""How a value is written. `names` is a comma list, `size` bytes with an optional binary suffix, `capacity` a count or
`auto`, `device` an index or `cpu`."""

TABLE_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "model": "Model",
        "server": "Server",
        "engine": "Engine",
        "speculation": "Speculative decoding",
        "cache": "Prefix cache",
        "media": "Media",
        "responses": "Stored responses",
        "thinking": "Thinking and tools",
        "sampling": "Sampling",
        "logging": "Logging",
    }
)
"""Tables of the TOML file and what the help and the manual call them, in their order there."""

INTEGER_LIMIT = 2**31 - 1
"""Upper bound of every count that the contract leaves open, so that sums stay far inside 64 bits."""


class OptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of one field of `ServeOptions`.

    `table` is its table in the TOML file, `contract` its line in the serving contract (empty for our own options),
    `default` how the default reads where the field's own default is None, `example` a TOML literal for the sample
    file where there is no default, `metavar` what stands for the value in `--help`. An option that is not `built`
    may be left alone, but giving it is a plan error.
    """

    table: str
    kind: OptionKind
    help: str
    contract: str = ""
    minimum: float | None = None
    maximum: float | None = None
    multiple: int | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    default: str = ""
    example: str = ""
    metavar: str = ""
    built: bool = True


def integer(
    table: str,
    contract: str,
    minimum: int,
    maximum: int,
    help: str,
    *,
    unit: str = "",
    multiple: int | None = None,
    default: str = "",
    example: str = "",
    built: bool = True,
) -> OptionInfo:
    return OptionInfo(
        kind="integer",
        table=table,
        contract=contract,
        help=help,
        minimum=minimum,
        maximum=maximum,
        unit=unit,
        multiple=multiple,
        default=default,
        example=example or default,
        metavar="N",
        built=built,
    )


def number(
    table: str, contract: str, minimum: float, maximum: float, help: str, *, default: str, example: str
) -> OptionInfo:
    return OptionInfo(
        kind="number",
        table=table,
        contract=contract,
        help=help,
        minimum=minimum,
        maximum=maximum,
        default=default,
        example=example,
        metavar="F",
    )


def switch(table: str, contract: str, help: str, *, built: bool = True) -> OptionInfo:
    return OptionInfo(kind="switch", table=table, contract=contract, help=help, built=built)


def text(
    table: str,
    contract: str,
    help: str,
    *,
    metavar: str = "",
    kind: OptionKind = "text",
    minimum: int | None = None,
    maximum: int | None = None,
    unit: str = "",
    choices: tuple[str, ...] = (),
    default: str = "",
    example: str = "",
    built: bool = True,
) -> OptionInfo:
    return OptionInfo(
        kind=kind,
        table=table,
        contract=contract,
        help=help,
        metavar=metavar,
        minimum=minimum,
        maximum=maximum,
        unit=unit,
        choices=choices,
        default=default,
        example=example,
        built=built,
    )


class SecretText:
    """A value that no repr, log line or serializer shows; `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "<redacted>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def range_text(info: OptionInfo) -> str:
    """The legal values in words, empty when anything goes."""
    if info.choices:
        return "|".join(info.choices)
    if info.kind == "switch":
        return "true|false"
    multiple = f"a multiple of {info.multiple}" if info.multiple is not None else ""
    word = {"capacity": "or auto", "device": "or cpu"}.get(info.kind, "")
    return ", ".join(part for part in (_bounds(info), multiple, word) if part)


def unit_and_range(info: OptionInfo) -> str:
    """`tokens: 1 or more`; either part may be absent."""
    unit = "" if info.kind == "size" else info.unit
    return ": ".join(part for part in (unit, range_text(info)) if part)


def _bounds(info: OptionInfo) -> str:
    if info.kind == "size":
        return "bytes, or a number with a KiB, MiB or GiB suffix"
    if info.minimum is None:
        return ""
    minimum = f"{info.minimum:g}" if info.kind == "number" else str(int(info.minimum))
    if info.maximum is None or info.maximum == INTEGER_LIMIT:
        return f"{minimum} or more"
    maximum = f"{info.maximum:g}" if info.kind == "number" else str(int(info.maximum))
    return f"{minimum}..{maximum}"
